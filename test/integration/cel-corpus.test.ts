import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { CelError, compileCel } from '../../src/cel/cel.ts';
import { isJsonObject, parseJson, type JsonObject } from '../../src/json/json.ts';

/**
 * Expressions with the answer of Kubernetes 1.37 to them in ValidatingAdmissionPolicies: a result, an error at
 * evaluation, or an error at creation of the policy. Gatehouse must give the same answer with the same message.
 */
type Answer =
  | { readonly kind: 'result'; readonly value: unknown }
  | { readonly kind: 'error' | 'compileError'; readonly message: string };

/** Expressions where Gatehouse differs, with the reason. An obsolete entry fails, too. */
const EXCEPTIONS: Readonly<Record<string, { readonly ours: Answer; readonly why: string }>> = {
  'object.spec.enabled': {
    ours: { kind: 'result', value: true },
    why: 'with `result: bool` a dyn passes and is checked at evaluation: the author need not write `== true`',
  },
};

const corpus = parseJson(readFileSync(new URL('../data/cel-corpus-1.37.json', import.meta.url), 'utf8'));

function objectIn(value: unknown, key: string): JsonObject {
  const child: unknown = isJsonObject(value) ? value[key] : undefined;
  if (!isJsonObject(child)) throw new Error(`the corpus has no object ${key}`);
  return child;
}

const cases = Object.values(isJsonObject(corpus) && Array.isArray(corpus.cases) ? corpus.cases : []);

/**
 * The object that the expressions saw. Its recorded name began with `e` and a number, unlike the name in the corpus.
 */
const object = {
  ...objectIn(corpus, 'object'),
  metadata: { ...objectIn(objectIn(corpus, 'object'), 'metadata'), name: 'e1' },
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

function recordedAnswer(recorded: unknown): Answer {
  if (!isJsonObject(recorded)) throw new Error('not a case');
  const { result, error, compileError } = recorded;
  if (typeof error === 'string') return { kind: 'error', message: error };
  if (typeof compileError === 'string') return { kind: 'compileError', message: compileError };
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
    return {
      kind,
      message:
        position === undefined ? message : `ERROR: <input>:${position.line}:${position.column}: ${message}`,
    };
  }
}

const expressionOf = (recorded: unknown) => {
  const expression = isJsonObject(recorded) ? recorded.expression : undefined;
  if (typeof expression !== 'string') throw new Error('not a case');
  return expression;
};

test('the corpus has all recorded expressions', () => {
  expect(cases).toHaveLength(198);
});

test.each(cases.map((recorded) => [expressionOf(recorded), recordedAnswer(recorded)] as const))(
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
  const known = new Set(cases.map(expressionOf));
  expect(Object.keys(EXCEPTIONS).filter((expression) => !known.has(expression))).toEqual([]);
});
