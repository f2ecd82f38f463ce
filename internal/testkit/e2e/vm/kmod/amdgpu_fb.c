// SPDX-License-Identifier: GPL-2.0
/*
 * A framebuffer of the first GPU, for the kernel's text console. The console holds the
 * module as it holds that of a real driver: by fb_ops.owner (fbcon.c, fbcon_open).
 */
#include <linux/fb.h>
#include <linux/module.h>
#include <linux/vmalloc.h>

#include "amdgpu.h"

#define WIDTH  640
#define HEIGHT 480
#define BYTES  4 /* of a pixel */

static bool console;
module_param(console, bool, 0444);
MODULE_PARM_DESC(console, "the first GPU has a framebuffer");

static struct fb_info *info;
static u32 palette[16];

static const struct fb_ops ops = {
	.owner = THIS_MODULE,
	.fb_fillrect = sys_fillrect,
	.fb_copyarea = sys_copyarea,
	.fb_imageblit = sys_imageblit,
};

int console_add(struct gpu *gpu)
{
	int err = -ENOMEM;

	if (!console || info)
		return 0;
	info = framebuffer_alloc(0, &gpu->pdev->dev);
	if (!info)
		return -ENOMEM;
	info->screen_size = WIDTH * HEIGHT * BYTES;
	info->screen_buffer = vzalloc(info->screen_size);
	if (!info->screen_buffer)
		goto release;
	info->fbops = &ops;
	info->flags = FBINFO_VIRTFB;
	info->pseudo_palette = palette;
	strscpy(info->fix.id, "amdgpudrmfb", sizeof(info->fix.id));
	info->fix.type = FB_TYPE_PACKED_PIXELS;
	info->fix.visual = FB_VISUAL_TRUECOLOR;
	info->fix.line_length = WIDTH * BYTES;
	info->fix.smem_len = info->screen_size;
	info->var.xres = info->var.xres_virtual = WIDTH;
	info->var.yres = info->var.yres_virtual = HEIGHT;
	info->var.bits_per_pixel = 8 * BYTES;
	info->var.red = (struct fb_bitfield){ 16, 8, 0 };
	info->var.green = (struct fb_bitfield){ 8, 8, 0 };
	info->var.blue = (struct fb_bitfield){ 0, 8, 0 };
	err = register_framebuffer(info);
	if (!err)
		return 0;
	vfree(info->screen_buffer);
release:
	framebuffer_release(info);
	info = NULL;
	return err;
}

void console_remove(struct gpu *gpu)
{
	if (!info || info->device != &gpu->pdev->dev)
		return;
	unregister_framebuffer(info);
	vfree(info->screen_buffer);
	framebuffer_release(info);
	info = NULL;
}
