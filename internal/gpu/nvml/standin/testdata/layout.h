/*
 * The structures of libnvidia-ml that dcm reads and writes, written down here by
 * themselves, as C lays them out, so that a mistake in dcm's offsets shows.
 */
#include <stdint.h>

typedef struct {
	char busIdLegacy[16];
	uint32_t domain, bus, device, pciDeviceId, pciSubSystemId;
	char busId[32];
} pci_t;

typedef struct { uint32_t start, size; } placement_t;

typedef struct {
	uint32_t id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
	uint32_t copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
	uint64_t memorySizeMB;
} gi_profile_v1_t;

typedef struct {
	uint32_t version, id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
	uint32_t copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
	uint64_t memorySizeMB;
	char name[96];
} gi_profile_v2_t;

typedef struct {
	uint32_t version, id, sliceCount, instanceCount, multiprocessorCount;
	uint32_t copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
	uint64_t memorySizeMB;
	char name[96];
	uint32_t capabilities;
} gi_profile_v3_t;

typedef struct {
	uint32_t version, id, sliceCount, instanceCount, multiprocessorCount;
	uint32_t sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
	char name[96];
} ci_profile_v2_t;

typedef struct {
	void *device;
	uint32_t id, profileId;
	placement_t placement;
} gi_info_t;

typedef struct {
	void *device, *gpuInstance;
	uint32_t id, profileId;
	placement_t placement;
} ci_info_t;

typedef struct {
	uint32_t fieldId, scopeId;
	int64_t timestamp, latencyUsec;
	uint32_t valueType, nvmlReturn;
	union { double d; uint32_t u; uint64_t ull; } value;
} field_t;

typedef struct {
	uint32_t pid;
	uint64_t usedGpuMemory;
	uint32_t gpuInstanceId, computeInstanceId;
} process_t;

typedef struct { uint64_t total, free, used; } memory_t;

typedef struct {
	uint32_t version;
	uint64_t total, reserved, free, used;
} memory_v2_t;

typedef struct { uint32_t gpu, memory; } utilization_t;
