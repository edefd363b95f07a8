/** The annotations of OpenShift's service-ca, for clusters that migrate from it. Each one exists under two prefixes. */
import { toTimestamp } from '../../json/kube-object.ts';

const BETA = 'service.beta.openshift.io/';
const ALPHA = 'service.alpha.openshift.io/';
const PREFIXES = [BETA, ALPHA] as const;

type Annotations = Readonly<Record<string, string>>;

export const isOpenshiftAnnotation = (name: string): boolean =>
  PREFIXES.some((prefix) => name.startsWith(prefix));

/** As in service-ca, an empty name asks for nothing. */
export function openshiftSecretName(annotations: Annotations): string | undefined {
  return PREFIXES.map((prefix) => annotations[`${prefix}serving-cert-secret-name`]).find(
    (name) => name !== undefined && name !== '',
  );
}

export const madeByServiceCa = (annotations: Annotations, serviceUid: string): boolean =>
  PREFIXES.some((prefix) => annotations[`${prefix}originating-service-uid`] === serviceUid);

/** As service-ca annotates a serving Secret. `notAfter`: the end of the leaf. */
export function openshiftSecretMarks(
  service: { readonly name: string; readonly uid: string },
  notAfter: Date,
): Annotations {
  return onBoth({
    'originating-service-uid': service.uid,
    'originating-service-name': service.name,
    expiry: toTimestamp(notAfter),
  });
}

export type OpenshiftOutcome =
  | { readonly kind: 'signed'; readonly signedBy: string }
  | { readonly kind: 'failed'; readonly message: string };

/** `null` removes an annotation. Undefined: all are right. Unlike in service-ca, the number of errors does not end retries. */
export function openshiftServiceChange(
  annotations: Annotations,
  outcome: OpenshiftOutcome,
): Readonly<Record<string, string | null>> | undefined {
  const wanted = outcome.kind === 'signed' ? signed(outcome.signedBy) : failed(annotations, outcome.message);
  const changes = Object.entries(wanted).filter(([name, value]) => (annotations[name] ?? null) !== value);
  return changes.length === 0 ? undefined : Object.fromEntries(changes);
}

const ERROR = 'serving-cert-generation-error';
const ERROR_NUMBER = 'serving-cert-generation-error-num';

const signed = (signedBy: string) =>
  onBoth({ 'serving-cert-signed-by': signedBy, [ERROR]: null, [ERROR_NUMBER]: null });

function failed(annotations: Annotations, message: string): Record<string, string | null> {
  if (annotations[BETA + ERROR] === message) return {};
  const before = Number(annotations[BETA + ERROR_NUMBER] ?? annotations[ALPHA + ERROR_NUMBER] ?? 0);
  return onBoth({
    [ERROR]: message,
    [ERROR_NUMBER]: String((Number.isSafeInteger(before) ? before : 0) + 1),
  });
}

function onBoth<Value>(values: Readonly<Record<string, Value>>): Record<string, Value> {
  return Object.fromEntries(
    PREFIXES.flatMap((prefix) =>
      Object.entries(values).map(([name, value]): [string, Value] => [prefix + name, value]),
    ),
  );
}
