/** Label selectors: those of policies, and the texts that clients of the sandbox send. */
import fc from 'fast-check';

import { selectorText } from '../../../src/admission/handlers/reader.ts';
import { isEqual, isJsonObject, type JsonObject } from '../../../src/json/json.ts';
import { matchesSelector, normaliseSelector } from '../../../src/json/label-selector.ts';
import { ApiFailure } from '../../../src/sandbox/machinery/failure.ts';
import {
  parseFieldSelector,
  parseLabelSelector,
} from '../../../src/sandbox/machinery/selectors/selectors.ts';
import { ofJson } from '../../../src/sandbox/machinery/api-object.ts';
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

/** A policy's selector has one normal form, which says in a query what it says in an object. */
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
    hold(again.problems.length === 0 && isEqual(again.selector, selector), () => 'the normal form is none');
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

/** What clients of the sandbox ask by is understood or refused in the API's words. */
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
