/** The expected result of a test, and its comparison with the actual result. */
import { messageOf } from '../../../json/error-message.ts';
import { compilePattern } from '../../../cel/regular-expression.ts';
import {
  isEqual,
  isJsonArray,
  isJsonObject,
  ownValue,
  stringifyJson,
  type JsonValue,
} from '../../../json/json.ts';
import { readMap, readObject, readText, readTexts, readWord, type YamlField } from '../yaml.ts';
import type { ReviewResult, Verdict } from '../review-result.ts';

type ExpectedDecision = (typeof DECISIONS)[number];

const DECISIONS = ['allow', 'warn', 'deny', 'unchecked'] as const;

type ReadExpectation = NonNullable<ReturnType<typeof readExpectation>>;
export type Expectation = Pick<ReadExpectation, 'decision'> & Partial<ReadExpectation>;

const DENIAL_KEYS = ['message', 'messageMatches', 'fields'];
const EXPECT_KEYS = ['decision', ...DENIAL_KEYS, 'warnings', 'object', 'auditAnnotations'];

/** Reports problems; undefined if the expectation cannot be used. */
export function readExpectation(field: YamlField) {
  if (readMap(field, EXPECT_KEYS) === undefined) {
    if (field.value === undefined) field.report('a test needs expect: the expected result');
    return undefined;
  }
  const decision = readWord(field.at('decision'), DECISIONS);
  if (field.at('decision').value === undefined)
    field.report(`decision is required: one of ${DECISIONS.join(', ')}`);
  const details = {
    /** A part of the message of a denial. */
    message: readText(field.at('message')),
    messageMatches: patternOf(field.at('messageMatches')),
    /** The fields of all causes, in any order. */
    fields: readTexts(field.at('fields')),
    /** A part of each warning, in any order; empty: no warnings. */
    warnings: readTexts(field.at('warnings')),
    /** A part of the object after mutation; null: the field is absent. */
    object: readObject(field.at('object')),
    /** A part of each annotation; null: the annotation is absent. */
    auditAnnotations: annotationsOf(field.at('auditAnnotations')),
  };
  if (decision === undefined) return undefined;
  for (const [key, value] of Object.entries(details)) {
    if (value !== undefined && decision !== 'deny' && DENIAL_KEYS.includes(key))
      field.at(key).report('allowed only with decision: deny');
  }
  if (details.object !== undefined && decision === 'deny')
    field.at('object').report('not allowed with decision: deny');
  return { decision, ...details };
}

function patternOf(field: YamlField) {
  const text = readText(field);
  if (text === undefined) return undefined;
  try {
    const pattern = compilePattern(text);
    return { text, test: (message: string) => pattern.test(message) };
  } catch (error) {
    field.report(messageOf(error));
    return undefined;
  }
}

function annotationsOf(field: YamlField): Readonly<Record<string, string | null>> | undefined {
  const given = readObject(field);
  if (given === undefined) return undefined;
  const entries = Object.entries(given).filter((entry): entry is [string, string | null] => {
    const [key, value] = entry;
    const isValid = typeof value === 'string' || value === null;
    if (!isValid) field.at(key).report('must be a string, or null if the annotation must be absent');
    return isValid;
  });
  return Object.fromEntries(entries);
}

/** A difference between the expected and the actual result. */
export interface Mismatch {
  /** e.g. `decision`, `object.spec.tier`. */
  readonly what: string;
  readonly expected: string;
  readonly received: string;
}

const DECISION: Readonly<Record<Verdict, ExpectedDecision>> = {
  allowed: 'allow',
  warned: 'warn',
  denied: 'deny',
  unchecked: 'unchecked',
};

/** No mismatch if the expectation holds. */
const unless = (
  holds: boolean,
  what: string,
  expected: string,
  received: string | undefined,
): readonly Mismatch[] => (holds ? [] : [{ what, expected, received: received ?? 'none' }]);

export function checkExpectation(expect: Expectation, result: ReviewResult): readonly Mismatch[] {
  const decision = DECISION[result.verdict];
  if (decision !== expect.decision)
    return [{ what: 'decision', expected: expect.decision, received: describeDecision(result) }];
  const text = result.messages.join('; ');
  const { message = '', messageMatches, fields, warnings, object, auditAnnotations = {} } = expect;
  return [
    ...unless(text.includes(message), 'message', `… ${message} …`, text),
    ...unless(messageMatches?.test(text) !== false, 'messageMatches', messageMatches?.text ?? '', text),
    ...(fields === undefined ? [] : fieldMismatches(fields, result)),
    ...(warnings === undefined ? [] : warningMismatches(warnings, result)),
    ...(object === undefined ? [] : valueMismatches(object, result.object, 'object')),
    ...Object.entries(auditAnnotations).flatMap(([key, wanted]) => {
      const received = ownValue(result.auditAnnotations, key) as string | undefined; // annotations are strings
      const holds = wanted === null ? received === undefined : received?.includes(wanted) === true;
      return unless(holds, `auditAnnotations.${key}`, wanted === null ? 'none' : `… ${wanted} …`, received);
    }),
  ];
}

/** The decision with its reason. */
function describeDecision({ verdict, messages, warnings }: ReviewResult): string {
  switch (verdict) {
    case 'denied':
      return `deny: ${messages.join('; ')}`;
    case 'warned':
      return `warn: ${warnings.join('; ')}`;
    case 'unchecked':
      return 'unchecked: no policy and no handler applies to this write';
    case 'allowed':
      return 'allow';
  }
}

function fieldMismatches(expected: readonly string[], { causes }: ReviewResult): readonly Mismatch[] {
  const wanted = [...new Set(expected)].sort();
  const received = [...new Set(causes.map(({ field }) => field))].sort();
  return unless(isEqual(wanted, received), 'fields', shown(wanted), shown(received));
}

/** Each expected text must match a different warning. */
function warningMismatches(expected: readonly string[], { warnings }: ReviewResult): readonly Mismatch[] {
  const left = [...warnings];
  const isThere = expected.map((text) => {
    const index = left.findIndex((warning) => warning.includes(text));
    return index !== -1 && left.splice(index, 1).length === 1;
  });
  const holds = isThere.every(Boolean) && left.length === 0;
  return unless(holds, 'warnings', shown(expected), shown(warnings));
}

/** Maps are compared partially, lists by length and index, other values exactly. Null expects an absent field. */
function valueMismatches(expected: JsonValue, received: unknown, path: string): readonly Mismatch[] {
  if (expected === null) return unless((received ?? null) === null, path, 'nothing', shown(received));
  if (isJsonObject(expected) && isJsonObject(received))
    return Object.entries(expected).flatMap(([key, value]) =>
      valueMismatches(value, ownValue(received, key), `${path}.${key}`),
    );
  if (isJsonArray(expected) && isJsonArray(received) && expected.length === received.length)
    return expected.flatMap((value, index) => valueMismatches(value, received[index], `${path}[${index}]`));
  return unless(isEqual(expected, received), path, shown(expected), shown(received));
}

const shown = (value: unknown): string => (value === undefined ? 'nothing' : stringifyJson(value));
