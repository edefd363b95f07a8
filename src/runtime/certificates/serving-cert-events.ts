/** Events on Services and Secrets about serving certs. */
import type { EventNote } from '../../kube/events.ts';
import { withKind } from '../../kube/object.ts';
import { secrets, services } from '../../kube/well-known.ts';
import { AUTHORITY_SECRET, CERT_PREFIXES } from '../../pki/annotations.ts';
import type { AcceptedRequest } from '../../pki/serving-certs/request.ts';
import type { StoredSecret } from '../../pki/serving-certs/facts.ts';
import type { ServiceIdentity } from '../../pki/serving-certs/secret.ts';
import { regarding } from '../controller.ts';

/** Why the Secret of a Service is not written. */
export type Refusal =
  /** The Secret has another owner, or a property that cannot be changed. */
  | { readonly kind: 'foreign' | 'wrong-type' | 'immutable' }
  /** An older Service owns the Secret. */
  | { readonly kind: 'taken'; readonly by: string }
  /** The Secret must be replaced, and is being deleted. */
  | { readonly kind: 'terminating'; readonly finalizers: readonly string[] }
  | { readonly kind: 'namespace-ends' | 'contended' }
  | { readonly kind: 'write-refused' | 'clock' | 'trust' | 'constraints'; readonly message: string }
  /** Only the key stores cannot be written. */
  | { readonly kind: 'no-password'; readonly secretName: string; readonly key: string };

export type Explanation = Pick<EventNote, 'reason' | 'message'>;

/** The message says what to do. */
export function explain(
  refusal: Refusal,
  { secretName, purpose }: Pick<AcceptedRequest, 'secretName' | 'purpose'>,
): Explanation {
  const explanation = (reason: string, message: string): Explanation => ({ reason, message });
  const onRequest = `, or have Gatehouse delete it with ${CERT_PREFIXES[purpose]}replace-secret: "true" on this Service`;
  const notMade = `no ${purpose} cert is made for secret ${secretName}`;
  switch (refusal.kind) {
    case 'foreign':
      return explanation(
        'ForeignSecret',
        `secret ${secretName} belongs to another owner and is left alone: name another secret, delete this one, or allow Gatehouse to ` +
          'take it over: annotate it with gatehouse.dev/serving-cert-adopt and the name of this Service',
      );
    case 'taken':
      return explanation(
        'SecretTaken',
        `secret ${secretName} belongs to the older Service ${refusal.by}: name another one`,
      );
    case 'wrong-type':
      return explanation(
        'SecretTypeConflict',
        `secret ${secretName} is not of type kubernetes.io/tls, which cannot be changed: delete it${onRequest}`,
      );
    case 'immutable':
      return explanation(
        'SecretImmutable',
        `secret ${secretName} is immutable: delete it${onRequest}; Gatehouse then creates it again`,
      );
    case 'terminating':
      return explanation(
        'SecretTerminating',
        `secret ${secretName} is being deleted and is created again when it is gone: it waits for ` +
          (refusal.finalizers.length === 0
            ? 'the API server'
            : `the owners of its finalizers (${refusal.finalizers.join(', ')})`),
      );
    case 'write-refused':
      return explanation('WriteRefused', `secret ${secretName} is not written: ${refusal.message}`);
    case 'clock':
      return explanation('ClockSkewed', `${notMade}: ${refusal.message}`);
    case 'trust':
      return explanation(
        'TrustNotRecorded',
        `${notMade}: ${refusal.message}. It has not for a minute: the Events of secret ${AUTHORITY_SECRET} say why`,
      );
    case 'constraints':
      return explanation('NameNotPermitted', `${notMade}: ${refusal.message}`);
    case 'namespace-ends':
      return explanation(
        'NamespaceTerminating',
        `secret ${secretName} is not created: its namespace is being deleted`,
      );
    case 'contended':
      return explanation(
        'SecretContended',
        `another client keeps changing or deleting secret ${secretName} or its Service: Gatehouse repairs it with increasing delays, up to 5 minutes. ` +
          'Find the client in metadata.managedFields of the secret, or in the audit log, and exclude the secret from it',
      );
    case 'no-password':
      return explanation(
        'KeystorePasswordMissing',
        `secret ${secretName} gets no key stores: secret ${refusal.secretName} with their password does not exist, or its ` +
          `key ${refusal.key} is missing, empty or longer than 1 KiB`,
      );
  }
}

export const NOTICES = ['AddressesIgnored', 'ShortNamesOmitted'] as const;

/** What the cert of a Service lacks. It is issued and renewed nevertheless. */
export function noticesOf({
  purpose,
  secretName,
  lacksAddresses,
  omittedNames,
}: AcceptedRequest): readonly (Explanation & { readonly reason: (typeof NOTICES)[number] })[] {
  const ignored = {
    reason: 'AddressesIgnored',
    message:
      `${CERT_PREFIXES[purpose]}cluster-ips: the operator allows no IP addresses (--serving-cert-cluster-ips), so the cert in secret ` +
      `${secretName} has only DNS names: remove the annotation`,
  } as const;
  const omitted = {
    reason: 'ShortNamesOmitted',
    message:
      `the cert in secret ${secretName} lacks the short name ${omittedNames.join(', ')}, which is in a domain of another namespace ` +
      `(--serving-cert-namespace-suffixes): annotate the Service with ${CERT_PREFIXES[purpose]}short-names: "false"`,
  } as const;
  return [...(lacksAddresses ? [ignored] : []), ...(omittedNames.length > 0 ? [omitted] : [])];
}

export const regardingService = (service: ServiceIdentity) =>
  regarding(withKind(services, { metadata: service }));

export const regardingSecret = (secret: StoredSecret) => regarding(withKind(secrets, secret));
