/** Brings one Secret to its desired state. Decides on a live read, and writes at most once. */
import { isDeepStrictEqual } from 'node:util';
import { ApiError, insteadOf, isAlreadyExists, isNotFound } from '../../kube/api-error.ts';
import { secrets, services } from '../../kube/well-known.ts';
import { TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY } from '../../pki/annotations.ts';
import { textOf } from '../../pki/secret-data.ts';
import { readServingCert, type StoredSecret } from '../../pki/serving-certs/facts.ts';
import { chainOf, issueServingCert } from '../../pki/serving-certs/issue.ts';
import { DEFAULT_KEYSTORE_PASSWORD } from '../../pki/serving-certs/key-store.ts';
import { isKeyStore, type Output, outputData } from '../../pki/serving-certs/outputs.ts';
import { type IssueReason, recheckTime, type ServingCertPlan } from '../../pki/serving-certs/plan.ts';
import { hasPrecedence, type Service } from '../../pki/serving-certs/request.ts';
import {
  hasForeignKeys,
  isOriginal,
  markedService,
  ownership,
  type Secret,
  type ServiceIdentity,
  withMarks,
  withOutputs,
  withoutServingCert,
  withReadableText,
  withServingCert,
  withTrust,
  writability,
  writtenOutputs,
} from '../../pki/serving-certs/secret.ts';
import { parseCertificatePem, parsePrivateKeyPem } from '../../pki/x509/pem.ts';
import { skewProblem } from '../clock-skew.ts';
import {
  isWritten,
  type PartlyWritten,
  refusable,
  REFUSED_RECHECK_MS,
  writePossible,
  WriteRefused,
} from '../write-refused.ts';
import {
  extraMarks,
  identityOf,
  needsClock,
  planOf,
  type Refusal,
  regardingSecret,
  regardingService,
  secretKeyOf,
  type ServingCertsPass,
  type ServingCertTask,
} from './serving-cert-task.ts';

export type RepairResult = { readonly missing?: Refusal | undefined } & (
  | {
      readonly kind: 'issued';
      readonly reason: IssueReason;
      readonly secret: Secret;
      /** No watch reports a Secret whose label an admission policy removes. */
      readonly recheckAt: Date;
    }
  /** `updated`: its marks, chain, bundle or outputs; the leaf and the key have not changed. */
  | { readonly kind: 'updated' | 'unchanged'; readonly plan: ServingCertPlan; readonly secret: Secret }
  | { readonly kind: 'refused'; readonly refusal: Refusal }
);

/** @param isAbsent the store lacks this Secret: a create first saves a read. @throws {WriteRefused} */
export async function repairSecret(task: ServingCertTask, isAbsent: boolean): Promise<RepairResult> {
  if (isAbsent) {
    const created = await createMissing(task);
    if (created !== undefined) return created;
  }
  const { client, identity, request, signal } = task;
  const ref = { namespace: identity.namespace, name: request.secretName };
  const live = await client.get<Secret>(secrets, ref, { signal });
  if (live === undefined) {
    const created = await createMissing(task);
    if (created !== undefined) return created;
    throw new Error(`another client has just created secret ${secretKeyOf(task)}`);
  }
  const standing = await standingOf(live, task);
  switch (standing) {
    case 'ours':
      return await improve(live, task);
    case 'wrong-type':
    case 'immutable':
    case 'foreign':
      if (standing !== 'foreign' && live.metadata?.deletionTimestamp !== undefined) return terminating(live);
      if (standing !== 'foreign' && request.replaceSecret && markedService(live) === identity.name) {
        await deleteSecret(live, task);
        return (await createMissing(task)) ?? terminating(live);
      }
      return refused({ kind: standing });
    case 'taken':
      return refused({ kind: 'taken', by: markedService(live) ?? '' });
  }
}

const refused = (refusal: Refusal): RepairResult => ({ kind: 'refused', refusal });

const terminating = ({ metadata }: Secret): RepairResult =>
  refused({ kind: 'terminating', finalizers: metadata?.finalizers ?? [] });

/** Deletes the Secret only if its uid and resourceVersion are still those that were read. @throws {WriteRefused} */
async function deleteSecret({ metadata = {} }: Secret, pass: Pick<ServingCertsPass, 'client' | 'signal'>) {
  const { client, signal } = pass;
  const { namespace, name = '', uid, resourceVersion } = metadata;
  await refusable(() =>
    client.delete(secrets, { namespace, name }, { signal, preconditions: { uid, resourceVersion } }),
  );
}

/** Who owns the Secret. If it is marked for another Service, reads that Service. */
async function standingOf(live: Secret, task: ServingCertTask) {
  const { client, requests, openshift, identity, request, service, signal } = task;
  const owner = ownership(live, identity, { openshift });
  if (owner !== 'another-service') return owner;
  const ref = { namespace: identity.namespace, name: markedService(live) ?? '' };
  const holder = await client.get<Service>(services, ref, { signal });
  const theirs =
    holder && requests.claims(holder).find(({ secretName }) => secretName === request.secretName);
  const ours = requests.claimOf(service, request.purpose);
  const holds = theirs !== undefined && (ours === undefined || hasPrecedence(theirs, ours));
  return holds ? 'taken' : writability(live);
}

async function improve(live: Secret, task: ServingCertTask): Promise<RepairResult> {
  const { client, serverClock, signal } = task;
  const facts = readServingCert(live.data, task.authority);
  const plan = planOf(facts, task);
  const replace = (wanted: Secret) =>
    writePossible(live, wanted, (secret) => client.replace(secrets, secret, { signal }));
  const problem =
    facts?.kind === 'usable' && needsClock(plan) ? skewProblem(serverClock.skewMs()) : undefined;
  if (problem !== undefined) return refused({ kind: 'clock', message: problem });
  if (plan.kind === 'issue') {
    const made = await issue(live, task);
    return issued(plan.reason, made, await replace(made.secret), task);
  }
  const { bridges, bundle } = task.signing;
  const chain =
    plan.kind === 'rechain' && facts?.kind === 'usable' ? chainOf(facts.leaf, bridges) : undefined;
  const readable = plan.kind === 'rewrite' ? withReadableText(live) : live;
  const refreshed = plan.kind === 'keep' ? live : withTrust(readable, { chain, bundle });
  const notAfter = facts?.kind === 'usable' ? facts.notAfter : undefined;
  const { secret, missing } = await complete(refreshed, live, notAfter, task);
  if (isDeepStrictEqual(secret, live)) return { kind: 'unchanged', plan, secret: live, missing };
  const { object, refused: part } = await replace(secret);
  const kind = isDeepStrictEqual(object, live) ? 'unchanged' : 'updated';
  return { kind, plan, secret: object, missing: missing ?? partOf(part) };
}

const partOf = (refused: PartlyWritten<Secret>['refused']): Refusal | undefined =>
  refused && { kind: 'part', ...refused };

function issued(
  reason: IssueReason,
  made: Awaited<ReturnType<typeof issue>>,
  { object: written, refused: part }: PartlyWritten<Secret>,
  { now }: ServingCertTask,
): RepairResult {
  const isKept = isDeepStrictEqual(written.data, made.secret.data);
  const recheckAt = isKept ? made.recheckAt : new Date(now.getTime() + REFUSED_RECHECK_MS);
  return { kind: 'issued', reason, secret: written, missing: made.missing ?? partOf(part), recheckAt };
}

async function issue(existing: Secret | undefined, task: ServingCertTask) {
  const { identity, request, authority, signing, now } = task;
  const keyPair = await task.generateKeyPair(request.algorithm);
  const serial = task.randomSerial();
  const order = { ...request, authority, keyPair, serial, now };
  const { chain, ...validity } = await issueServingCert(order);
  const fresh = withServingCert(existing, {
    service: identity,
    secretName: request.secretName,
    chain,
    privateKey: keyPair.privateKey,
    bundle: signing.bundle,
  });
  const recheckAt = recheckTime(validity, { ...request, now, serviceUid: identity.uid, signing });
  return { ...(await complete(fresh, undefined, validity.notAfter, task)), recheckAt };
}

async function createMissing(task: ServingCertTask): Promise<RepairResult | undefined> {
  const made = await issue(undefined, task);
  const create = (secret: Secret) => task.client.create(secrets, secret, { signal: task.signal });
  const created = await writePossible(undefined, made.secret, create)
    .catch(insteadOf(isAlreadyExists, 'exists'))
    .catch(insteadOf(isOfEndingNamespace, 'namespace-ends'));
  if (created === 'exists') return undefined;
  if (created === 'namespace-ends') return refused({ kind: created });
  return issued('Missing', made, created, task);
}

/** 403 with this cause while the namespace is being deleted, 404 once it is gone. */
const isOfEndingNamespace = (error: unknown): boolean =>
  isNotFound(error) ||
  (error instanceof WriteRefused && isOfEndingNamespace(error.cause)) ||
  (error instanceof ApiError && error.causes.some(({ reason }) => reason === 'NamespaceTerminating'));

/** `before`: the Secret whose outputs still fit the cert. They stay if their password cannot be read now. */
async function complete(
  secret: Secret,
  before: Secret | undefined,
  notAfter: Date | undefined,
  task: ServingCertTask,
): Promise<{ readonly secret: Secret; readonly missing: Refusal | undefined }> {
  const { identity, request, signing } = task;
  const password = await readPassword(task);
  const possible = request.outputs.filter((output) => !isKeyStore(output) || password !== undefined);
  const files =
    possible.length === 0
      ? {} // the usual case: parses nothing
      : await outputData(possible, {
          chain: parseCertificatePem(textOf(secret.data, TLS_CERT_KEY) ?? ''),
          privateKey: parsePrivateKeyPem(textOf(secret.data, TLS_PRIVATE_KEY_KEY) ?? ''),
          bundle: signing.bundle,
          password: password ?? '',
        });
  const kept: readonly Output[] = before === undefined ? [] : writtenOutputs(before);
  const outputs = request.outputs.filter((output) => possible.includes(output) || kept.includes(output));
  return {
    secret: withMarks(withOutputs(secret, outputs, files), identity, extraMarks(task, notAfter)),
    missing:
      password === undefined && request.keystorePassword !== undefined
        ? { kind: 'no-password', ...request.keystorePassword }
        : undefined,
  };
}

/** In octets. Key stores hash the password again and again, which blocks the leader. */
const MAX_PASSWORD = 1024;

/** Undefined: the Secret that should hold it does not, or it is too long. Read each time and never stored. */
async function readPassword(task: ServingCertTask): Promise<string | undefined> {
  const { client, identity, request, signal } = task;
  const { keystorePassword: source } = request;
  if (source === undefined || !request.outputs.some(isKeyStore)) return DEFAULT_KEYSTORE_PASSWORD;
  const ref = { namespace: identity.namespace, name: source.secretName };
  const secret = await client.get<Secret>(secrets, ref, { signal });
  const password = Buffer.from(secret?.data?.[source.key] ?? '', 'base64');
  return password.length === 0 || password.length > MAX_PASSWORD ? undefined : password.toString('utf8');
}

type Outcome = 'removed' | 'kept' | 'refused';

/** Leaves copies alone. Returns whether the API server refused a write. */
export async function releaseOrphans(
  key: string,
  service: Service | undefined,
  pass: ServingCertsPass,
): Promise<boolean> {
  const { stores, onRemoval, reminders, serverClock } = pass;
  const outcomes: Outcome[] = [];
  for (const secret of stores.secretsOf(key)) {
    const { namespace = '', name = '' } = secret.metadata ?? {};
    const secretKey = `${namespace}/${name}`;
    const reminder = `${secretKey} RenewalStopped`;
    if (stores.claimants(secretKey).length > 0) reminders.clear(reminder);
    if (stores.claimants(secretKey).length > 0 || !isOriginal(secret)) continue;
    if (service === undefined) {
      // The garbage collector deletes it, because the Service owns it. But data of other clients stays.
      if (secret.hasForeignKeys === true) outcomes.push(await clearAbandoned(secret, pass));
      continue;
    }
    if (secret.summary === undefined && secret.hasForeignKeys === true) continue; // holds no cert of ours
    const outcome = onRemoval === 'delete' ? await deleteOrphan(name, service, pass) : 'kept';
    outcomes.push(outcome);
    if (outcome !== 'removed' && reminders.isDue(reminder, identityOf(service).uid, serverClock.now()))
      reportOrphan(secret, service, pass);
  }
  return outcomes.includes('refused');
}

/** `removed`: the deletion may wait for a finalizer. Decides on live reads of both the Service and the Secret. */
async function deleteOrphan(name: string, { metadata }: Service, pass: ServingCertsPass): Promise<Outcome> {
  const { client, requests, record, log, signal } = pass;
  const { namespace = '', name: serviceName = '' } = metadata ?? {};
  const service = await client.get<Service>(services, { namespace, name: serviceName }, { signal });
  if (service === undefined || requests.claims(service).some(({ secretName }) => secretName === name))
    return 'kept';
  const secret = await client.get<Secret>(secrets, { namespace, name }, { signal });
  if (secret === undefined || secret.metadata?.deletionTimestamp !== undefined) return 'removed';
  const identity = identityOf(service);
  if (
    markedService(secret) !== serviceName ||
    !isOriginal(secret) ||
    ['foreign', 'another-service'].includes(ownership(secret, identity))
  )
    return 'kept';
  if (hasForeignKeys(secret)) return await clear(secret, identity, pass);
  if ((secret.metadata?.ownerReferences ?? []).length > 1) return 'kept';
  const key = `${namespace}/${serviceName}`;
  // A refusal must not keep the Service from the Secret that it asks for now.
  const isDeleted = await isWritten(
    () => deleteSecret(secret, pass),
    (problem) => log.warn({ key, secret: name, problem }, 'serving secret is not deleted'),
  );
  if (!isDeleted) return 'refused';
  log.info({ key, secret: name }, 'deleted serving secret');
  record({
    regarding: regardingService(identity),
    type: 'Normal',
    reason: 'SecretDeleted',
    message: `secret ${name} with a serving cert is deleted, because the Service does not ask for it anymore`,
  });
  return 'removed';
}

/** For a Service that is gone. Decides on live reads of both the Service and the Secret. */
async function clearAbandoned(stored: StoredSecret, pass: ServingCertsPass): Promise<Outcome> {
  const { metadata, summary } = stored;
  const { client, signal } = pass;
  if (summary === undefined) return 'kept';
  const { namespace = '', name = '' } = metadata ?? {};
  const secret = await client.get<Secret>(secrets, { namespace, name }, { signal });
  const serviceName = secret && markedService(secret);
  if (secret === undefined || serviceName === undefined || !isOriginal(secret)) return 'kept';
  if (!hasForeignKeys(secret)) return 'kept';
  const service = { namespace, name: serviceName, uid: '' };
  if ((await client.get<Service>(services, service, { signal })) !== undefined) return 'kept';
  return ownership(secret, service) === 'ours' ? await clear(secret, service, pass) : 'kept';
}

async function clear(secret: Secret, service: ServiceIdentity, pass: ServingCertsPass): Promise<Outcome> {
  const { client, record, log, signal } = pass;
  const { name = '' } = secret.metadata ?? {};
  const key = `${service.namespace}/${service.name}`;
  const replace = (wanted: Secret) => client.replace(secrets, wanted, { signal });
  const isCleared = await isWritten(
    () => writePossible(secret, withoutServingCert(secret, service), replace),
    (problem) => log.warn({ key, secret: name, problem }, 'a serving secret still contains the cert'),
  );
  if (!isCleared) return 'refused';
  log.info({ key, secret: name }, 'removed the cert from a serving secret');
  record({
    regarding: regardingSecret(secret),
    type: 'Normal',
    reason: 'CertificateRemoved',
    message: `the serving cert is removed, because no Service asks for it; the data of other clients stays`,
  });
  return 'removed';
}

function reportOrphan(secret: StoredSecret, service: Service, { record, log }: ServingCertsPass): void {
  const { summary } = secret;
  const { namespace, name } = regardingSecret(secret);
  const identity = identityOf(service);
  const until = summary?.kind === 'usable' ? ` It ends at ${summary.notAfter.toISOString()}.` : '';
  const message =
    `Gatehouse stopped renewing the serving cert in secret ${name}, because Service ${identity.name} does not ask for it.${until} ` +
    'Put the annotation back, or delete the secret.';
  const event = { type: 'Warning', reason: 'RenewalStopped', message } as const;
  record({ regarding: regardingService(identity), ...event });
  record({ regarding: regardingSecret(secret), ...event });
  log.warn({ key: `${namespace}/${identity.name}`, secret: name }, 'stopped renewing the serving cert');
}
