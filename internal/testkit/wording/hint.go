package wording

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

// Hints follow "hint: ". So they begin in lower case, unless the first word is a name such as DCGM, and end
// without a period.
var (
	capitalLetter = regexp.MustCompile(`^[A-Z][a-z]*[ ,;:]`)
	inlineHint    = regexp.MustCompile(`(?s)\bhint: (.+)$`)
)

// checkHints finds hints of another form: the values of fields and constants that are named so, what a
// function of that name returns, and what follows "hint: " in a text.
func checkHints(file string, n ast.Node, line func(token.Pos) int) []finding {
	var found []finding
	add := func(e ast.Expr) {
		if text := begin(e); capitalLetter.MatchString(text) {
			found = append(found, finding{file, line(e.Pos()), hintForm, text})
		} else if text := end(e); hasPeriod(text) {
			found = append(found, finding{file, line(e.Pos()), hintForm, text})
		}
	}
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && isHint(key.Name) {
			add(n.Value)
		}
	case *ast.ValueSpec:
		for i, value := range n.Values {
			if isHint(n.Names[i].Name) {
				add(value)
			}
		}
	case *ast.FuncDecl:
		if n.Body == nil || !isHint(n.Name.Name) {
			break
		}
		ast.Inspect(n.Body, func(n ast.Node) bool {
			if r, ok := n.(*ast.ReturnStmt); ok {
				for _, e := range r.Results {
					add(e)
				}
			}
			return true
		})
	case ast.Expr:
		if text, ok := literal(n); ok {
			if m := inlineHint.FindStringSubmatch(text); m != nil && (capitalLetter.MatchString(m[1]) || hasPeriod(m[1])) {
				found = append(found, finding{file, line(n.Pos()), hintForm, m[1]})
			}
		}
	}
	return found
}

// hasPeriod reports whether a text ends with a period. An ellipsis is none.
func hasPeriod(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "...")
}

// isHint reports whether an identifier names hints.
func isHint(name string) bool {
	return strings.HasPrefix(name, "hint") || strings.HasSuffix(name, "Hint") || name == "Remedy"
}

// begin returns the literal that an expression begins with, "" if it begins with a value.
func begin(e ast.Expr) string {
	if b, ok := e.(*ast.BinaryExpr); ok {
		return begin(b.X)
	}
	text, _ := literal(e)
	return text
}

// end returns the literal that an expression ends with, "" if it ends with a value.
func end(e ast.Expr) string {
	if b, ok := e.(*ast.BinaryExpr); ok {
		return end(b.Y)
	}
	text, _ := literal(e)
	return text
}
