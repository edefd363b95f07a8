/** Label selectors of policies, and selectors in requests to the sandbox. */
import fc from 'fast-check';

import { selectorText } from '../../../src/admission/handlers/reader.ts';
import { isEqual, isJsonObject, type JsonObject } from '../../../src/json/json.ts';
import { matchesSelector, normaliseSelector } from '../../../src/json/label-selector.ts';
import { ApiFailure } from '../../../src/machinery/failure.ts';
import { parseFieldSelector, parseLabelSelector } from '../../../src/machinery/selectors/selectors.ts';
import { ofJson } from '../../../src/machinery/api-object.ts';
import { mutatedObject, mutatedText } from '../mutated.ts';
import { answerOf, fuzzTarget, hold } from '../target.ts';

const SELECTORS: readonly JsonObject[] = [
  { matchLabels: { team: 'hardware', 'example.com/tier': '' } },
  {
    matchLabels: { a: 'b' },
    matchExpressions: [
      { key: 'team', operator: 'In', values: ['hardware', 'x', 'x'] },
      { key: 'a', operator: 'NotIn', values: ['', 'c'] },
      { key: 'example.com/tier', operator: 'Exists' },
      { key: 'gone', operator: 'DoesNotExist', values: [] },
    ],
  },
  {},
];

const LABELS: readonly JsonObject[] = [
  { team: 'hardware', 'example.com/tier': '', a: 'b' },
  { team: 'x', gone: 'no' },
];

const textsOf = (labels: JsonObject): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(labels).filter((label): label is [string, string] => typeof label[1] === 'string'),
  );

/** The normal form of a policy's selector is stable, and matches the same objects as its query text. */
export const selectors = fuzzTarget(
  'label selector',
  30,
  fc.tuple(mutatedObject(SELECTORS), mutatedObject(LABELS)),
  ([given, labels]) => {
    const { selector, problems } = normaliseSelector(given, 'spec.match.selector');
    for (const { where, message } of problems) {
      hold(
        where.startsWith('spec.match.selector') && message !== '',
        () => `a problem without a place: ${where}`,
      );
      hold(message.length < 2_000, () => `a message of ${message.length} characters`);
    }
    const again = normaliseSelector(selector, 'x');
    hold(
      again.problems.length === 0 && isEqual(again.selector, selector),
      () => 'the normal form is not stable',
    );
    const texts = textsOf(labels);
    const inQuery = parseLabelSelector(selectorText(selector) ?? '')(texts);
    hold(matchesSelector(selector, texts) === inQuery, () => `as a query it matches: ${String(inQuery)}`);
  },
);

const QUERIES = [
  'team=hardware,a!=b,example.com/tier in (x, y,),!gone',
  'a notin (b),size>3,size < 7,c',
  'metadata.name=a\\,b,metadata.namespace!=x',
  'type==Opaque',
];
const FIELDS = { 'metadata.name': () => 'a', type: () => 'Opaque' };

/** The sandbox parses the selector of a request, or rejects it with status 400. */
export const queries = fuzzTarget(
  'sandbox: selector',
  30,
  fc.tuple(mutatedText(QUERIES), mutatedObject(LABELS)),
  ([text, labels]) => {
    const isRefusal = (error: unknown) => error instanceof ApiFailure && error.status.code === 400;
    const matches = answerOf(() => parseLabelSelector(text), isRefusal);
    matches?.(textsOf(labels));
    const selects = answerOf(() => parseFieldSelector(text, FIELDS), isRefusal);
    selects?.(ofJson({ apiVersion: 'v1', kind: 'Secret', metadata: isJsonObject(labels) ? labels : {} }));
  },
);
