import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';

import { memoizeWeak } from '../../json/json.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { ServerClock } from '../../kube/clock.ts';
import type { EventNote } from '../../kube/events.ts';
import { withKind } from '../../kube/object.ts';
import { secrets, services } from '../../kube/well-known.ts';
import type { Log } from '../../log.ts';
import { AUTHORITY_SECRET, CERT_PREFIXES } from '../../pki/annotations.ts';
import { activeGeneration, type Authority, type Signing, signingOf } from '../../pki/authority/authority.ts';
import { caOf } from '../../pki/authority/generation.ts';
import {
  type Attempt,
  isContended,
  nextAttempt,
  type RevertHistory,
  settledAt,
} from '../../pki/revert-backoff.ts';
import type { ServingCertFacts, StoredSecret } from '../../pki/serving-certs/facts.ts';
import { openshiftSecretMarks } from '../../pki/serving-certs/openshift.ts';
import { planServingCert, type ServingCertPlan } from '../../pki/serving-certs/plan.ts';
import type { AcceptedRequest, Service } from '../../pki/serving-certs/request.ts';
import {
  type ExtraMarks,
  isOriginal,
  markedRenewAfter,
  type Secret,
  type ServiceIdentity,
  withMarks,
  writtenOutputs,
} from '../../pki/serving-certs/secret.ts';
import type { LeafPurpose } from '../../pki/x509/certificate-fields.ts';
import { type RecordEvent, regarding, type Reminders } from '../controller.ts';
import type { RefusedWrites } from '../write-refused.ts';
import type { CertInventory, ServiceRequests, ServingCertStores } from './serving-cert-stores.ts';
import type { IssuePacer } from './issue-pacer.ts';
import type { KeySource } from './rotation-step.ts';

export interface ServingCertsContext extends KeySource {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'delete' | 'patchMerge'>;
  /** Used only to decide that no write is needed. Every write is decided on a live read. */
  readonly stores: Pick<ServingCertStores, 'synced' | 'service' | 'claimants' | 'secret' | 'secretsOf'>;
  readonly requests: Pick<ServiceRequests, 'request' | 'claimOf' | 'claims'>;
  /** While the clocks disagree, a usable cert stays: on other machines a new cert could be expired or not yet valid. */
  readonly serverClock: Pick<ServerClock, 'now' | 'skewMs'>;
  readonly authority: () => Authority | undefined;
  /** Asks the leader to record a later end of the certs that the authority may sign. A later authority adds all keys. */
  readonly extendTrust: () => void;
  readonly inventory: Pick<CertInventory, 'factsOf'>;
  readonly pacer: Pick<IssuePacer, 'take' | 'forget'>;
  readonly contended: Omit<ContendedSecrets, 'count'>;
  readonly openshift: boolean;
  readonly onRemoval: 'retain' | 'delete';
  readonly record: RecordEvent;
  readonly observe: (result: 'issued' | 'refused' | 'failed', reason: string) => void;
  readonly log: Log;
}

/** What is known of a key only in memory. A new leader finds everything else in the objects. */
export interface Known {
  /** The Secret exists, although it is not in the store. */
  isUnseen?: boolean;
  /** Since when it waits until the leader has recorded a later trust. */
  untrustedSince?: Date;
  checked?: CheckedOutputs;
  /** Fields of its metadata that the API server refuses to change, and until when Gatehouse does not try again. */
  part?: { readonly fields: readonly string[]; readonly until: Date } | undefined;
}

export interface ServingCertsPass extends ServingCertsContext {
  readonly known: Map<string, Known>;
  readonly reminders: Reminders;
  readonly refusedWrites: RefusedWrites;
  readonly signal: AbortSignal;
}

export interface ServingCertTask extends Omit<ServingCertsPass, 'authority'> {
  readonly key: string;
  readonly service: Service;
  readonly identity: ServiceIdentity;
  readonly request: AcceptedRequest;
  readonly authority: Authority;
  readonly signing: Signing;
  readonly now: Date;
}

/** Keys of a pacer and of all other state: each Secret of a Service has its own. Begins with the namespace. */
export const taskKeyOf = (serviceKey: string, purpose: LeafPurpose): string =>
  purpose === 'serving' ? serviceKey : `${serviceKey}/${purpose}`;

export const serviceKeyOf = (taskKey: string): string => taskKey.split('/', 2).join('/');

export const secretKeyOf = ({ identity, request }: Pick<ServingCertTask, 'identity' | 'request'>): string =>
  `${identity.namespace}/${request.secretName}`;

export function identityOf({ metadata }: Service): ServiceIdentity {
  return { namespace: metadata?.namespace ?? '', name: metadata?.name ?? '', uid: metadata?.uid ?? '' };
}

export function planOf(
  facts: ServingCertFacts | undefined,
  { identity, request, signing, now }: ServingCertTask,
): ServingCertPlan {
  return planServingCert({ ...request, now, serviceUid: identity.uid, signing, current: facts });
}

/** Paces certs that the authority, a setting or the clock makes due together. A missing or damaged one does not wait. */
export function isPaced(
  plan: ServingCertPlan,
  stored: StoredSecret | undefined,
  task: ServingCertTask,
): boolean {
  if (task.request.own === true) return false; // the API server needs this cert to call Gatehouse, so it never waits
  const { summary } = stored ?? {};
  if (stored === undefined || summary?.kind !== 'usable') return false;
  const isStale = markedRenewAfter(stored) !== task.request.renewAfter || !isOriginal(stored);
  return plan.kind !== 'keep' || isStale;
}

/** Whether a wrong clock could make the result worse than the present cert. */
export const needsClock = ({ kind }: ServingCertPlan): boolean => kind === 'issue' || kind === 'rechain';

/** Changes only with the authority: a tenant that changes the rest often, reverts the Secret in effect. */
export const signingIdOf = memoizeWeak(({ generationId, bridges, bundle }: Signing): string =>
  createHash('sha256')
    .update(JSON.stringify([generationId, bridges, bundle]))
    .digest('base64'),
);

export function extraMarks({ identity, request }: ServingCertTask, notAfter: Date | undefined): ExtraMarks {
  const { labels, renewAfter, via } = request;
  return via === 'openshift' && notAfter !== undefined
    ? { labels, renewAfter, annotations: openshiftSecretMarks(identity, notAfter) }
    : { labels, renewAfter };
}

export function isMarked(secret: Secret, task: ServingCertTask, notAfter: Date): boolean {
  const { part } = task.known.get(task.key) ?? {};
  const refused = part !== undefined && task.now < part.until ? part.fields : [];
  const marksIn = ({ metadata = {} }: Secret) =>
    Object.fromEntries(Object.entries(metadata).filter(([field]) => !refused.includes(field)));
  const wanted = withMarks(secret, task.identity, extraMarks(task, notAfter));
  return (
    writtenOutputs(secret).join() === task.request.outputs.join() &&
    isDeepStrictEqual(marksIn(wanted), marksIn(secret))
  );
}

/** Memoises the signing data for all Secrets, until the authority changes or one of its certificates ends. */
export function createSigningCache(): (authority: Authority, now: Date) => Signing {
  let known: { readonly authority: Authority; readonly madeAt: Date; readonly signing: Signing } | undefined;
  return (authority, now) => {
    const holds = known?.authority === authority && now >= known.madeAt && now < known.signing.validUntil;
    if (known === undefined || !holds) known = { authority, madeAt: now, signing: signingOf(authority, now) };
    return known.signing;
  };
}

export function signerName(authority: Authority): string {
  const { subject } = caOf(activeGeneration(authority));
  return /^CN=(.*)$/m.exec(subject)?.[1] ?? subject;
}

/** No watch covers the password of a key store, so Gatehouse reads it again after this time, in milliseconds. */
const PASSWORD_RECHECK_MS = 10 * 60_000;

export const passwordRecheckAt = ({ request, now }: ServingCertTask): number =>
  request.keystorePassword === undefined ? Number.POSITIVE_INFINITY : now.getTime() + PASSWORD_RECHECK_MS;

/** That the outputs of a Secret were right: the store holds neither key nor password. */
export interface CheckedOutputs {
  readonly of: string;
  /** Then the password may have changed. In milliseconds since 1970. */
  readonly until: number;
}

const outputsIn = ({ metadata }: Pick<Secret, 'metadata'>, { request }: ServingCertTask): string =>
  JSON.stringify([metadata?.resourceVersion, request.outputs, request.keystorePassword]);

export const checkedOutputs = (secret: Pick<Secret, 'metadata'>, task: ServingCertTask): CheckedOutputs => ({
  of: outputsIn(secret, task),
  until: passwordRecheckAt(task),
});

export const hasChecked = (
  checked: CheckedOutputs | undefined,
  secret: Pick<Secret, 'metadata'>,
  task: ServingCertTask,
): boolean =>
  task.request.outputs.length === 0 ||
  (checked?.of === outputsIn(secret, task) && task.now.getTime() < checked.until);

export type Refusal =
  | { readonly kind: 'foreign' | 'wrong-type' | 'immutable' }
  | { readonly kind: 'taken'; readonly by: string }
  | { readonly kind: 'terminating'; readonly finalizers: readonly string[] }
  | { readonly kind: 'namespace-ends' | 'contended' }
  | { readonly kind: 'write-refused' | 'clock' | 'trust' | 'constraints'; readonly message: string }
  | { readonly kind: 'part'; readonly fields: readonly string[]; readonly message: string }
  | { readonly kind: 'no-password'; readonly secretName: string; readonly key: string };

export type Explanation = Pick<EventNote, 'reason' | 'message'>;

export function explain(
  refusal: Refusal,
  { secretName, purpose, replaceSecret }: Pick<AcceptedRequest, 'secretName' | 'purpose' | 'replaceSecret'>,
): Explanation {
  const explanation = (reason: string, message: string): Explanation => ({ reason, message });
  // Gatehouse deletes only what it marked before.
  const onRequest = replaceSecret
    ? ''
    : `, or have Gatehouse delete it with ${CERT_PREFIXES[purpose]}replace-secret: "true" on this Service`;
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
    case 'part': {
      const fields = refusal.fields.map((field) => `metadata.${field}`).join(' and ');
      return explanation(
        'PartRefused',
        `secret ${secretName} is written, except for its ${fields}: ${refusal.message}`,
      );
    }
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
        `secret ${secretName} lacks key stores: secret ${refusal.secretName} with their password does not exist, or its ` +
          `key ${refusal.key} is missing, empty or longer than 1 KiB`,
      );
  }
}

export const NOTICES = ['AddressesIgnored', 'ShortNamesOmitted', 'AnnotationIgnored'] as const;

export function noticesOf({
  purpose,
  secretName,
  lacksAddresses,
  omittedNames,
  unused,
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
  return [
    ...(lacksAddresses ? [ignored] : []),
    ...(omittedNames.length > 0 ? [omitted] : []),
    ...(unused === undefined ? [] : [{ reason: 'AnnotationIgnored' as const, message: unused }]),
  ];
}

export const regardingService = (service: ServiceIdentity) =>
  regarding(withKind(services, { metadata: service }));

export const regardingSecret = (secret: StoredSecret) => regarding(withKind(secrets, secret));
export type ContendedSecrets = ReturnType<typeof createContendedSecrets>;

export function createContendedSecrets() {
  /** By Service, the one with the oldest write first. A Service that is created again keeps its history. */
  const histories = new Map<string, RevertHistory>();
  return {
    /** Whether to write now. Store the history of a wait immediately, but the history of a write only after its success. */
    attempt: (key: string, wanted: string, now: Date): Attempt =>
      nextAttempt(histories.get(key), wanted, now),
    remember: (key: string, history: RevertHistory, now: Date): void => {
      histories.delete(key);
      histories.set(key, history);
      for (const [oldest, settled] of histories) {
        if (now < settledAt(settled)) break;
        histories.delete(oldest);
      }
    },
    /** The Secret is as it should be. Until when it still counts as contended; undefined: it does not. */
    contendedUntil: (key: string, now: Date): Date | undefined => {
      const history = histories.get(key);
      if (!isContended(history)) return undefined;
      const until = settledAt(history);
      if (now < until) return until;
      histories.delete(key);
      return undefined;
    },
    count: (): number => [...histories.values()].filter(isContended).length,
  };
}
