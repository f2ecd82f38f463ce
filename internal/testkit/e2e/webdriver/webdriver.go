// Package webdriver controls a browser by W3C's WebDriver protocol. It is independent of the page
// and of the transport.
package webdriver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Ask sends one request to the driver and returns the body of the reply.
type Ask func(ctx context.Context, method, path string, body []byte) ([]byte, error)

// Session is one browser.
type Session struct {
	ask  Ask
	path string
}

// Key is a key without a character.
type Key = string

// The codes of some keys in the protocol.
const (
	Tab    Key = "\uE004"
	Enter  Key = "\uE007"
	Escape Key = "\uE00C"
	Space  Key = " "
	Right  Key = "\uE014"
	Down   Key = "\uE015"
)

// New starts a browser with the arguments.
func New(ctx context.Context, ask Ask, arguments ...string) (*Session, error) {
	s := &Session{ask: ask}
	var opened struct {
		ID string `json:"sessionId"`
	}
	err := s.do(ctx, "POST", "/session", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"browserName":        "chrome",
		"timeouts":           map[string]any{"script": scriptTimeout.Milliseconds()},
		"goog:chromeOptions": map[string]any{"args": arguments},
	}}}, &opened)
	s.path = "/session/" + opened.ID
	return s, err
}

// Close ends the browser.
func (s *Session) Close(ctx context.Context) error { return s.do(ctx, "DELETE", "", nil, nil) }

// Open goes to an address, and returns when the page has loaded.
func (s *Session) Open(ctx context.Context, url string) error {
	return s.do(ctx, "POST", "/url", map[string]any{"url": url}, nil)
}

// Size sets the size of the window.
func (s *Session) Size(ctx context.Context, width, height int) error {
	return s.do(ctx, "POST", "/window/rect", map[string]any{"width": width, "height": height}, nil)
}

// Frame selects the frame that matches a selector, from the top, or the top for "".
func (s *Session) Frame(ctx context.Context, selector string) error {
	if err := s.do(ctx, "POST", "/frame", map[string]any{"id": nil}, nil); err != nil || selector == "" {
		return err
	}
	var frame map[string]string
	if err := s.do(ctx, "POST", "/element", css(selector), &frame); err != nil {
		return err
	}
	return s.do(ctx, "POST", "/frame", map[string]any{"id": frame}, nil)
}

// Click clicks on the element that matches a selector.
func (s *Session) Click(ctx context.Context, selector string) error {
	return s.element(ctx, selector, "click", map[string]any{})
}

// Type types into the element that matches a selector.
func (s *Session) Type(ctx context.Context, selector, text string) error {
	return s.element(ctx, selector, "value", map[string]any{"text": text})
}

// Press presses keys sequentially. The focused element receives them.
func (s *Session) Press(ctx context.Context, keys ...Key) error {
	var actions []map[string]any
	for _, k := range keys {
		actions = append(actions, map[string]any{"type": "keyDown", "value": k}, map[string]any{"type": "keyUp", "value": k})
	}
	return s.do(ctx, "POST", "/actions", map[string]any{"actions": []any{
		map[string]any{"type": "key", "id": "keyboard", "actions": actions},
	}}, nil)
}

// Read runs a script in the page and stores what it returns.
func (s *Session) Read(ctx context.Context, script string, to any) error {
	return s.do(ctx, "POST", "/execute/sync", map[string]any{"script": script, "args": []any{}}, to)
}

// scriptTimeout limits one wait in the browser. [Session.Await] repeats it until its context
// ends, so that the browser is free soon afterwards.
const scriptTimeout = 10 * time.Second

// Await waits until an expression is true in the page. It is evaluated after each change of
// the document.
func (s *Session) Await(ctx context.Context, expression string) error {
	script := `const done = arguments[0], is = () => { try { return Boolean(` + expression + `) } catch { return false } };
if (is()) return done(true);
const o = new MutationObserver(() => { if (is()) { o.disconnect(); done(true); } });
o.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });`
	for {
		err := s.do(ctx, "POST", "/execute/async", map[string]any{"script": script, "args": []any{}}, nil)
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), ": script timeout: ") {
			return err
		}
	}
}

// Picture returns a PNG of the window.
func (s *Session) Picture(ctx context.Context) ([]byte, error) {
	var text string
	if err := s.do(ctx, "GET", "/screenshot", nil, &text); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(text)
}

func css(selector string) map[string]any {
	return map[string]any{"using": "css selector", "value": selector}
}

func (s *Session) element(ctx context.Context, selector, what string, body any) error {
	var found map[string]string
	if err := s.do(ctx, "POST", "/element", css(selector), &found); err != nil {
		return err
	}
	for _, id := range found {
		return s.do(ctx, "POST", "/element/"+id+"/"+what, body, nil)
	}
	return fmt.Errorf("the browser finds no %s", selector)
}

func (s *Session) do(ctx context.Context, method, path string, body, to any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	answer, err := s.ask(ctx, method, s.path+path, text)
	if err != nil {
		return fmt.Errorf("cannot ask the browser %s %s: %w", method, path, err)
	}
	var value struct{ Value json.RawMessage }
	if err := json.Unmarshal(answer, &value); err != nil {
		return fmt.Errorf("the browser answers %s with %q: %w", path, answer, err)
	}
	var wrong struct{ Error, Message string }
	if json.Unmarshal(value.Value, &wrong) == nil && wrong.Error != "" {
		return fmt.Errorf("the browser refuses %s %s %s: %s: %s", method, path, text, wrong.Error, wrong.Message)
	}
	if to == nil {
		return nil
	}
	return json.Unmarshal(value.Value, to)
}

// Forget removes the cookies of the page.
func (s *Session) Forget(ctx context.Context) error { return s.do(ctx, "DELETE", "/cookie", nil, nil) }

// Chrome runs a command of the DevTools protocol. Only Chromium's driver has it.
func (s *Session) Chrome(ctx context.Context, command string, params map[string]any) error {
	return s.do(ctx, "POST", "/goog/cdp/execute", map[string]any{"cmd": command, "params": params}, nil)
}
