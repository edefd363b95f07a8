import { expect, test } from 'vitest';

import { CelError, compileCel } from '../../../cel/cel.ts';
import { celProblem } from './rule-problems.ts';

/** The problem of an expression over `self`; undefined if it compiles. */
function problemOf(expression: string): string | undefined {
  try {
    compileCel(expression, ['self']);
    return undefined;
  } catch (error) {
    return celProblem(error);
  }
}

test.each([
  'self.tags.isSorted()',
  "quantity(self.size).isLessThan(quantity('1Gi'))",
  'isIP(self.address)',
  "url(self.link).getHost() == 'a'",
  'sets.contains(self.a, self.b)',
  '!format.dns1123Label().validate(self.name).hasValue()',
  "self.name.replace('a', 'b') == 'b'",
  'self.tags.all(i, tag, tag.size() > i)',
])('%s compiles, as in Kubernetes', (expression) => {
  expect(problemOf(expression)).toBeUndefined();
});

test("functions that Kubernetes lacks are rejected with CEL's message", () => {
  expect(problemOf('self.nosuch()')).toBe(
    "compilation failed: undeclared reference to 'nosuch' (in container '')",
  );
  expect(problemOf('other == 1')).toBe(
    "compilation failed: undeclared reference to 'other' (in container '')",
  );
});

test('an error that is not about the expression is rethrown', () => {
  const error = new Error('out of memory');
  expect(() => celProblem(error)).toThrow(error);
  expect(celProblem(new CelError('x'))).toBe('compilation failed: x');
});
