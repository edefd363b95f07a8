/** What an API server tells of a policy, in a form that the webhook and compiled policies have in common. */
import { isDeepStrictEqual } from 'node:util';

import { LONGEST_ANNOTATION } from '../../../src/admission/policy/findings.ts';
import {
  isJsonObject,
  listIn,
  objectIn,
  parseJson,
  textIn,
  type JsonObject,
} from '../../../src/json/json.ts';
import { toCanonicalText } from '../../../src/json/json-text.ts';
import { warningsIn, type RawAnswer } from '../transport.ts';

const UNEVALUATED = 'an expression that cannot be evaluated';

/** Each pair states the match conditions. */
const distinct = (messages: readonly string[]): readonly string[] => [...new Set(messages)].toSorted();

export interface Verdict {
  readonly code: number;
  /** Who refuses. Neither: the API server for other reasons, or it was admitted. */
  readonly by: 'webhook' | 'compiled' | 'unreachable' | 'neither';
  /** What the policy says, with the fields. The API server tells one cause. */
  readonly causes: readonly string[];
  readonly warnings: readonly string[];
  readonly object: string;
  readonly audit: Readonly<Record<string, string>>;
}

const WEBHOOK = /admission webhook "[^"]*" denied the request: /;
const COMPILED = /(?:AdmissionPolicy|policy) '([^']*)' with binding '[^']*' denied request: ([^]*)$/;
const CHANGE = 'a change that cannot be made';

export function verdictOf(answer: RawAnswer, audit: Verdict['audit']): Verdict {
  const { status: code, text } = answer;
  const said = parseJson(text);
  const warnings = distinct(warningsIn(answer).map(shortWarning));
  const verdict = { code, by: 'neither', causes: [], warnings, object: '', audit: auditOf(audit) } as const;
  if (code < 400) return { ...verdict, object: comparable(objectIn({ said }, 'said')) };
  const message = textIn(said, 'message');
  const [, policy = '', refusal] = COMPILED.exec(message) ?? [];
  if (refusal !== undefined)
    return {
      ...verdict,
      by: 'compiled',
      causes: [policy.includes('.changes.') ? CHANGE : inCommon(refusal)],
    };
  if (message.includes('failed calling webhook')) return { ...verdict, by: 'unreachable', causes: [message] };
  // A match condition of the webhook.
  if (message.includes('resulted in error: ')) return { ...verdict, by: 'webhook', causes: [UNEVALUATED] };
  // The problems in its message have a random order.
  if (!WEBHOOK.test(message)) return { ...verdict, causes: [textIn(said, 'reason')] };
  const causes = listIn(said, 'details', 'causes').map((one) => {
    const field = textIn(one, 'field');
    return inCommon(`${field === '' ? '' : `${field}: `}${textIn(one, 'message')}`);
  });
  return { ...verdict, by: 'webhook', causes: message.includes('.mutate.') ? [CHANGE] : causes };
}

/** What the policy says in the audit log. */
function auditOf(annotations: Verdict['audit']): Verdict['audit'] {
  const noted = annotations['validation.policy.admission.k8s.io/validation_failure'];
  const own = Object.entries(annotations).flatMap(([key, value]) => {
    const [, name] = /^[^/]*\.gatehouse\.dev\/(.*)$/.exec(key) ?? [];
    return name === undefined || name === 'expression-errors' ? [] : [[name, value] as const];
  });
  const { violations: byWebhook, ...others } = Object.fromEntries(own);
  const messages = listIn({ all: noted === undefined ? [] : parseJson(noted) }, 'all');
  const byServer = messages.map((one) => textIn(one, 'message')).join('; ');
  return { ...others, ...violations(byWebhook ?? byServer) };
}

/** The webhook shortens long warnings. */
const shortWarning = (warning: string): string =>
  Array.from(inCommon(warning.replace(/^Validation failed for [^:]*: /, '')))
    .slice(0, 250)
    .join('');

const OF_THE_SERVER =
  /"(uid|resourceVersion|creationTimestamp|clusterIPs?|nodePort)":("[^"]*"|\d+|\["[^"]*"\]|null)/g;

const comparable = (object: JsonObject): string =>
  toCanonicalText(
    object.kind === 'Status' || object.items !== undefined ? object : written(object),
  ).replaceAll(OF_THE_SERVER, '"$1":""');

/** @param first whether the API server notes only the first of several violations, as it does before Kubernetes 1.37 */
export function isNotedAlike(
  { audit: webhook }: Verdict,
  { audit: server }: Verdict,
  first: boolean,
): boolean {
  const [all = '', noted = ''] = [webhook.violations, server.violations];
  const isPart = first && noted !== '' && (all === 'too long' || all.includes(noted));
  return isDeepStrictEqual(alike(webhook), alike(isPart ? { ...server, violations: all } : server));
}

/** The API server annotates a number that a user wrote as 1e18 as `1e+18`, though it stores an integer. */
const alike = (audit: Verdict['audit']) =>
  Object.fromEntries(
    Object.entries(audit).map(([key, text]) => [
      key,
      /^-?\d[\d.]*(e\+\d+)?$/.test(text) ? Number(text) : text,
    ]),
  );

/**
 * Apart from the audit annotations. If the API server cannot evaluate an expression, it answers 422, and the webhook 403.
 * @param isWhole whether the API server enforces all checks: it asks no webhook for a warning after its own refusal
 */
export function isAlike(webhook: Verdict, other: Verdict, isWhole: boolean): boolean {
  if (webhook.by !== 'webhook' || other.by !== 'compiled')
    return isDeepStrictEqual(webhook, { ...other, audit: webhook.audit });
  const [cause = ''] = other.causes;
  const isOnlyOne = webhook.causes.length === 1 && cause !== UNEVALUATED;
  return (
    webhook.causes.includes(cause) &&
    (!isOnlyOne || webhook.code === other.code) &&
    (isWhole
      ? isDeepStrictEqual(webhook.warnings, other.warnings)
      : other.warnings.every((one) => webhook.warnings.includes(one)))
  );
}

/** Ajv and CEL may find the flaws of a value in another order, so long annotations may keep other parts. */
const violations = (text: string): Verdict['audit'] => {
  if (Array.from(text).length > LONGEST_ANNOTATION || text.endsWith('…')) return { violations: 'too long' };
  return text === '' ? {} : { violations: inCommon(text).split('; ').toSorted().join('; ') };
};

/** The API server explains an error of an expression in its own words, and does not show the new value of a field. */
const inCommon = (message: string): string =>
  /resulted in error: |could not be evaluated: |an expression that cannot be evaluated/.test(message)
    ? UNEVALUATED
    : message.replace(/ (changed|set) to [^]*?( later)?: (keep the value|leave it out)/g, ' $1$2: $3');

/** The object without what the API server adds, empty maps of its metadata, and a generated name. */
function written(object: JsonObject): JsonObject {
  const metadata = objectIn(object, 'metadata');
  const own = without(metadata, [...OF_SERVER, ...(metadata.generateName === undefined ? [] : ['name'])]);
  const isEmpty = (value: unknown) => isJsonObject(value) && Object.keys(value).length === 0;
  const filled = Object.entries(own).filter(([, value]) => !isEmpty(value));
  return { ...object, metadata: Object.fromEntries(filled) };
}

const OF_SERVER = [
  ...['uid', 'resourceVersion', 'creationTimestamp', 'generation', 'managedFields'],
  ...['deletionTimestamp', 'deletionGracePeriodSeconds'],
];

const without = (object: JsonObject, names: readonly string[]): JsonObject =>
  Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
