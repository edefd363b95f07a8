/** Events on Services and Secrets about serving certs. */
import { pick } from '../../json/objects.ts';
import type { StoredSecret } from '../../pki/serving-certs/facts.ts';
import type { ServiceIdentity } from '../../pki/serving-certs/secret.ts';
import type { RecordEvent } from '../controller.ts';

/** Why the Secret of a Service is not written. */
export type Refusal =
  | { readonly kind: 'foreign' | 'wrong-type' | 'immutable' | 'namespace-ends' }
  /** An older Service owns the Secret. */
  | { readonly kind: 'taken'; readonly by: string }
  /** The API server refuses the write. */
  | { readonly kind: 'write-refused'; readonly message: string }
  /** The clocks disagree. */
  | { readonly kind: 'clock'; readonly message: string }
  /** Only the key stores cannot be written. */
  | { readonly kind: 'no-password'; readonly secretName: string; readonly key: string };

/** For an Event: a reason of one word, and a message that says what to do. */
export function explain(
  refusal: Refusal,
  secretName: string,
): { readonly reason: string; readonly message: string } {
  switch (refusal.kind) {
    case 'foreign':
      return {
        reason: 'ForeignSecret',
        message:
          `secret ${secretName} belongs to another owner and is left alone: name another secret, delete this one, or allow Gatehouse to ` +
          'take it over: annotate it with gatehouse.dev/serving-cert-adopt and the name of this Service',
      };
    case 'taken':
      return {
        reason: 'SecretTaken',
        message: `secret ${secretName} belongs to the older Service ${refusal.by}: name another one`,
      };
    case 'wrong-type':
      return {
        reason: 'SecretTypeConflict',
        message: `secret ${secretName} is not of type kubernetes.io/tls, which cannot be changed: delete it${ON_REQUEST}`,
      };
    case 'immutable':
      return {
        reason: 'SecretImmutable',
        message: `secret ${secretName} is immutable: delete it${ON_REQUEST}; Gatehouse then creates it again`,
      };
    case 'write-refused':
      return { reason: 'WriteRefused', message: `secret ${secretName} is not written: ${refusal.message}` };
    case 'clock':
      return {
        reason: 'ClockSkewed',
        message: `no serving cert is made for secret ${secretName}: ${refusal.message}`,
      };
    case 'namespace-ends':
      return {
        reason: 'NamespaceTerminating',
        message: `secret ${secretName} is not created: its namespace is being deleted`,
      };
    case 'no-password':
      return {
        reason: 'KeystorePasswordMissing',
        message:
          `secret ${secretName} gets no key stores: secret ${refusal.secretName} with their password does not exist or has no ` +
          `key ${refusal.key}`,
      };
  }
}

const ON_REQUEST =
  ', or have Gatehouse delete it with gatehouse.dev/serving-cert-replace-secret: "true" on this Service';

export interface ServiceEvents {
  readonly record: (
    service: ServiceIdentity,
    type: 'Normal' | 'Warning',
    reason: string,
    message: string,
  ) => void;
  /**
   * Reports a state rather than an occurrence: once when it begins, and again before Kubernetes forgets the Event.
   * @returns whether an Event was recorded now
   */
  readonly warn: (service: ServiceIdentity, reason: string, message: string, now: Date) => boolean;
  /** The state of the Service (`namespace/name`) is over. */
  readonly clear: (key: string) => void;
}

export const regardingService = (service: ServiceIdentity) => ({
  apiVersion: 'v1',
  kind: 'Service',
  ...service,
});

export function regardingSecret({ metadata = {} }: StoredSecret) {
  const { namespace = '', name = '' } = metadata;
  return { apiVersion: 'v1', kind: 'Secret', namespace, name, ...pick(metadata, 'uid') };
}

/** Kubernetes forgets an Event after an hour. */
export const REPEAT_MS = 50 * 60_000;

export function createServiceEvents(recordEvent: RecordEvent): ServiceEvents {
  const warned = new Map<string, { readonly text: string; readonly at: number }>();
  const record: ServiceEvents['record'] = (service, type, reason, message) => {
    recordEvent({ regarding: regardingService(service), type, reason, message });
  };
  return {
    record,
    warn: (service, reason, message, now) => {
      const key = `${service.namespace}/${service.name}`;
      const known = warned.get(key);
      const text = `${service.uid} ${reason} ${message}`;
      const age = known?.text === text ? now.getTime() - known.at : Number.POSITIVE_INFINITY;
      if (age >= 0 && age < REPEAT_MS) return false;
      warned.set(key, { text, at: now.getTime() });
      record(service, 'Warning', reason, message);
      return true;
    },
    clear: (key) => {
      warned.delete(key);
    },
  };
}
