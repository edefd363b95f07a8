import { expect, test } from 'vitest';

import { CelError, compileCel } from '../../admission/cel/cel.ts';
import { celProblem } from './cel-problem.ts';

/** What is said of an expression over `self`. Fails when it compiles: then the sandbox has what is asked for. */
function problemOf(expression: string): string {
  try {
    compileCel(expression, ['self']);
  } catch (error) {
    return celProblem(expression, error);
  }
  throw new Error(`${expression} compiles`);
}

test.each([
  ['self.tags.isSorted()', 'the function isSorted'],
  ["quantity(self.size).isLessThan(quantity('1Gi'))", 'the function quantity'],
  ['isIP(self.address)', 'the function isIP'],
  ["url(self.link).getHost() == 'a'", 'the function url'],
  ['sets.contains(self.a, self.b)', 'the function sets.contains'],
  ['!format.dns1123Label().validate(self.name).hasValue()', 'the function format.dns1123Label'],
  ["self.name.replace('a', 'b') == 'b'", 'the function replace'],
  ['self.tags.all(i, tag, tag.size() > i)', 'comprehensions with two variables'],
])('%s is refused, for the sandbox lacks it', (expression, lacking) => {
  expect(problemOf(expression)).toBe(
    `compilation failed: the sandbox does not have ${lacking}, which Kubernetes has`,
  );
});

test('what Kubernetes lacks too is refused in the words of CEL', () => {
  expect(problemOf('self.nosuch()')).toBe(
    "compilation failed: found no matching overload for 'dyn.nosuch()'",
  );
  expect(problemOf('other == 1')).toBe(
    "compilation failed: undeclared reference to 'other' (in container '')",
  );
});

test('an error that has nothing to do with the expression is passed on', () => {
  const error = new Error('out of memory');
  expect(() => celProblem('self.tags.isSorted()', error)).toThrow(error);
  expect(celProblem('1', new CelError('x'))).toBe('compilation failed: x');
});
