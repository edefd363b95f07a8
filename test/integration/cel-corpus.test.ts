import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { CelError, compileCel } from '../../src/cel/cel.ts';
import { objectIn, parseJson, type JsonObject } from '../../src/json/json.ts';

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

interface Case {
  readonly expression: string;
  readonly result?: unknown;
  readonly error?: string;
  readonly compileError?: string;
}

const file = new URL('../data/cel-corpus-1.37.json', import.meta.url);
const corpus = parseJson(readFileSync(file, 'utf8')) as JsonObject; // our own file
const cases = corpus.cases as unknown as readonly Case[];

/** The recorded object's name began with `e` and a number. */
const object = {
  ...objectIn(corpus, 'object'),
  metadata: { ...objectIn(corpus, 'object', 'metadata'), name: 'e1' },
};
const bindings = {
  object,
  oldObject: null,
  namespaceObject: { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' } },
  request: {
    ...objectIn(corpus, 'request'),
    name: 'e1',
    kind: { group: 'infra.example.com', version: 'v1', kind: 'Server' },
    resource: { group: 'infra.example.com', version: 'v1', resource: 'servers' },
    userInfo: { username: 'admin', groups: ['system:masters', 'system:authenticated'] },
  },
};

function recordedAnswer({ result, error, compileError }: Case): Answer {
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
