/** One Service with a valid request, and the checks that compare its Secret with the request. */
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';

import { memoizeWeak } from '../../json/objects.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { ServerClock } from '../../kube/clock.ts';
import type { Log } from '../../log.ts';
import { activeGeneration, type Authority } from '../../pki/authority/authority.ts';
import { signingOf, type Signing } from '../../pki/authority/bundle.ts';
import { caOf } from '../../pki/authority/generation.ts';
import type { ServingCertFacts, StoredSecret } from '../../pki/serving-certs/facts.ts';
import { openshiftSecretMarks } from '../../pki/serving-certs/openshift.ts';
import { planServingCert, type ServingCertPlan } from '../../pki/serving-certs/plan.ts';
import type { AcceptedRequest, Service } from '../../pki/serving-certs/request.ts';
import {
  markedRenewAfter,
  withMarks,
  writtenOutputs,
  type ExtraMarks,
  type Secret,
  type ServiceIdentity,
} from '../../pki/serving-certs/secret.ts';
import type { LeafPurpose } from '../../pki/x509/certificate-fields.ts';
import type { RecordEvent } from '../controller.ts';
import type { CertInventory } from './cert-inventory.ts';
import type { ContendedSecrets } from './contended-secrets.ts';
import type { IssuePacer } from './issue-pacer.ts';
import type { SignAs } from '../../pki/authority/sealed-key.ts';
import type { KeySource } from './rotation.ts';
import type { ServiceRequests } from './service-requests.ts';
import type { ServingCertStores } from './serving-cert-stores.ts';

/** What the serving cert controller reads and writes. */
export interface ServingCertsContext extends KeySource {
  /** Signs with the keys of the authority. Default: in this process. */
  readonly sign?: SignAs;
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'delete' | 'patchMerge'>;
  /** Used only to decide that no write is needed. Every write is decided on a live read. */
  readonly stores: Pick<ServingCertStores, 'synced' | 'service' | 'claimants' | 'secret' | 'secretsOf'>;
  readonly requests: Pick<ServiceRequests, 'request' | 'claimOf' | 'claims'>;
  /** While the clocks disagree, a usable cert stays: on other machines a new cert could be expired or not yet valid. */
  readonly serverClock: Pick<ServerClock, 'now' | 'skewMs'>;
  readonly authority: () => Authority | undefined;
  /** Asks the leader to record a later end of the certs that the authority may sign. A later authority adds all keys. */
  readonly extendTrust: () => void;
  readonly inventory: Pick<CertInventory, 'factsOf' | 'stopped' | 'renewed'>;
  readonly pacer: Pick<IssuePacer, 'take' | 'forget'>;
  readonly contended: Omit<ContendedSecrets, 'count'>;
  readonly openshift: boolean;
  readonly onRemoval: 'retain' | 'delete';
  readonly record: RecordEvent;
  /** For metrics. */
  readonly observe: (result: 'issued' | 'refused' | 'failed', reason: string) => void;
  readonly log: Log;
}

export interface ServingCertTask {
  /** From {@link taskKeyOf}. */
  readonly key: string;
  readonly service: Service;
  readonly identity: ServiceIdentity;
  readonly request: AcceptedRequest;
  readonly authority: Authority;
  /** The signing data of `authority` at `now`. */
  readonly signing: Signing;
  readonly now: Date;
  /** Aborts the reconcile. */
  readonly signal: AbortSignal;
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

/**
 * A change of the authority, of a setting or of the clock makes all certs due at once, so they are paced. Clients do not
 * notice a delay of some minutes, because the previous cert still holds. A missing or damaged cert does not wait.
 */
export function isPaced(
  plan: ServingCertPlan,
  stored: StoredSecret | undefined,
  task: ServingCertTask,
): boolean {
  if (task.request.own === true) return false; // the API server needs this cert to call Gatehouse, so it never waits
  const { summary } = stored ?? {};
  if (stored === undefined || summary?.kind !== 'usable') return false;
  return plan.kind !== 'keep' || markedRenewAfter(stored) !== task.request.renewAfter;
}

/** Whether a wrong clock could make the result worse than the present cert. */
export const needsClock = ({ kind }: ServingCertPlan): boolean => kind === 'issue' || kind === 'rechain';

/**
 * Changes only with the authority. A tenant chooses the rest of the content: to change it often, or to create the
 * Service again, is like reverting the Secret.
 */
export const signingIdOf = memoizeWeak(({ generationId, bridges, bundle }: Signing): string =>
  createHash('sha256')
    .update(JSON.stringify([generationId, bridges, bundle]))
    .digest('base64'),
);

/** Labels and annotations that the Secret needs in addition to Gatehouse's own marks. */
export function extraMarks({ identity, request }: ServingCertTask, notAfter: Date | undefined): ExtraMarks {
  const { labels, renewAfter, via } = request;
  return via === 'openshift' && notAfter !== undefined
    ? { labels, renewAfter, annotations: openshiftSecretMarks(identity, notAfter) }
    : { labels, renewAfter };
}

/** Whether the Secret has the expected marks and outputs. Does not check the content of the outputs. */
export function isMarked(secret: Secret, task: ServingCertTask, notAfter: Date): boolean {
  return (
    writtenOutputs(secret).join() === task.request.outputs.join() &&
    isDeepStrictEqual(withMarks(secret, task.identity, extraMarks(task, notAfter)), secret)
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

/** The common name of the CA, for users of OpenShift. */
export function signerName(authority: Authority): string {
  const { subject } = caOf(activeGeneration(authority));
  return /^CN=(.*)$/m.exec(subject)?.[1] ?? subject;
}

/** No watch covers the password of a key store, so Gatehouse reads it again after this time, in milliseconds. */
const PASSWORD_RECHECK_MS = 10 * 60_000;

/** When to read the password again, in milliseconds since 1970; never if it is the default. */
export const passwordRecheckAt = ({ request, now }: ServingCertTask): number =>
  request.keystorePassword === undefined ? Number.POSITIVE_INFINITY : now.getTime() + PASSWORD_RECHECK_MS;

/** That the outputs of a Secret were right: the store holds neither key nor password. */
export interface CheckedOutputs {
  /** The version of the Secret, and what the request wanted. */
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

/** Whether the outputs need no second check. */
export const hasChecked = (
  checked: CheckedOutputs | undefined,
  secret: Pick<Secret, 'metadata'>,
  task: ServingCertTask,
): boolean =>
  task.request.outputs.length === 0 ||
  (checked?.of === outputsIn(secret, task) && task.now.getTime() < checked.until);
