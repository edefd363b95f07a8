import { expect, test } from 'vitest';
import { CelError, compileCel } from '../../src/cel/cel.ts';
import { corpus } from '../fuzz/seeds.ts';

/** Expressions with the answer of Kubernetes 1.37 in ValidatingAdmissionPolicies. Gatehouse gives the same one. */
type Answer =
  | { readonly kind: 'result'; readonly value: unknown }
  | { readonly kind: 'error' | 'compileError'; readonly message: string };

/** Expressions whose answer differs, with the reason. The test also fails for an obsolete entry. */
const EXCEPTIONS: Readonly<Record<string, { readonly ours: Answer; readonly why: string }>> = {
  'object.spec.enabled': {
    ours: { kind: 'result', value: true },
    why: 'with `result: bool` a dyn passes and is checked at evaluation: the author need not write `== true`',
  },
};

const { bindings, cases } = corpus;

function recordedAnswer({ result, error, compileError }: (typeof cases)[number]): Answer {
  if (error !== undefined) return { kind: 'error', message: error };
  if (compileError !== undefined) return { kind: 'compileError', message: compileError };
  return { kind: 'result', value: result };
}

function ourAnswer(expression: string): Answer {
  let kind: 'compileError' | 'error' = 'compileError';
  try {
    const program = compileCel(expression, Object.keys(bindings), { result: 'bool', uniformLiterals: true });
    kind = 'error';
    return { kind: 'result', value: program.evaluate(bindings) };
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    const { position, message } = error;
    const place = position && `ERROR: <input>:${position.line}:${position.column}: `;
    return { kind, message: `${place ?? ''}${message}` };
  }
}

test('the corpus has all recorded expressions', () => {
  expect(cases).toHaveLength(198);
});

test.each(cases.map((recorded) => [recorded.expression, recordedAnswer(recorded)] as const))(
  '%s has the same result as in Kubernetes 1.37',
  (expression, recorded) => {
    const exception = EXCEPTIONS[expression];
    const ours = ourAnswer(expression);
    if (exception === undefined) {
      expect(ours).toEqual(recorded);
    } else {
      expect(ours).toEqual(exception.ours);
      expect(ours).not.toEqual(recorded);
    }
  },
);

test('every exception names an expression of the corpus', () => {
  const known = new Set(cases.map(({ expression }) => expression));
  expect(Object.keys(EXCEPTIONS).filter((expression) => !known.has(expression))).toEqual([]);
});
