package wording

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// durationSuffix ends the name of a constant that is a time.
var durationSuffix = regexp.MustCompile(`(?i)(Timeout|Interval|Delay|Limit|TTL|Window|Deadline)s?$`)

// notSentence matches the options of a usage line and the rows of a table.
var notSentence = regexp.MustCompile(`\[[^\]]*\]|(?m)^.*\S {2,}\S.*$`)

// checkGo checks the comments, the string literals and the names of durations of a Go file.
// The length of sentences and the form of hints are checked in code that is not a test.
func checkGo(file string, source []byte) ([]finding, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, file, source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	line := func(p token.Pos) int { return files.Position(p).Line }
	isTest := strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "internal/testkit/") || strings.Contains(file, "test/")

	var found []finding
	for _, group := range tree.Comments {
		found = append(found, checkWords(file, line(group.Pos()), commentText(group))...)
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		if !isTest {
			found = append(found, checkHints(file, n, line)...)
		}
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.GenDecl:
			if n.Tok == token.CONST {
				found = append(found, checkDurations(file, n, line)...)
			}
		case ast.Expr:
			text, ok := literal(n)
			if !ok {
				return true
			}
			found = append(found, checkWords(file, line(n.Pos()), text)...)
			if !isTest {
				for _, paragraph := range strings.Split(text, "\n\n") {
					found = append(found, checkSentences(file, line(n.Pos()), notSentence.ReplaceAllString(paragraph, ""))...)
				}
			}
			return false
		}
		return true
	})
	return found, nil
}

// commentText keeps the lines of a group of comments, without their marks.
func commentText(group *ast.CommentGroup) string {
	var lines []string
	for _, c := range group.List {
		lines = append(lines, strings.TrimPrefix(c.Text, "//"))
	}
	return strings.Join(lines, "\n")
}

// literal returns the text of a string literal, or of a sum of them.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.ParenExpr:
		return literal(e.X)
	case *ast.BinaryExpr:
		left, isLeft := literal(e.X)
		right, isRight := literal(e.Y)
		return left + right, isLeft && isRight && e.Op == token.ADD
	}
	return "", false
}

// checkDurations finds constants that are computed from a unit of package time.
func checkDurations(file string, decl *ast.GenDecl, line func(token.Pos) int) []finding {
	var found []finding
	for _, spec := range decl.Specs {
		values, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for i, value := range values.Values {
			if name := values.Names[i]; isDuration(value) && !durationSuffix.MatchString(name.Name) {
				found = append(found, finding{file, line(name.Pos()), durationName, name.Name})
			}
		}
	}
	return found
}

func isDuration(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		pkg, ok := e.X.(*ast.Ident)
		return ok && pkg.Name == "time" && timeUnits[e.Sel.Name]
	case *ast.BinaryExpr:
		return (e.Op == token.MUL || e.Op == token.ADD) && (isDuration(e.X) || isDuration(e.Y))
	case *ast.ParenExpr:
		return isDuration(e.X)
	}
	return false
}

var timeUnits = map[string]bool{"Nanosecond": true, "Microsecond": true, "Millisecond": true, "Second": true, "Minute": true, "Hour": true}
