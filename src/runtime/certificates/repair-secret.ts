/** Brings one Secret to its desired state. Decides on a live read, and writes at most once. */
import { isDeepStrictEqual } from 'node:util';

import { ApiError, isAlreadyExists, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { secrets, services } from '../../kube/well-known.ts';
import { TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY } from '../../pki/annotations.ts';
import { readServingCert, type ServingCertFacts } from '../../pki/serving-certs/facts.ts';
import { chainOf, issueServingCert } from '../../pki/serving-certs/issue.ts';
import { DEFAULT_KEYSTORE_PASSWORD } from '../../pki/serving-certs/key-store.ts';
import { isKeyStore, outputData, type Output } from '../../pki/serving-certs/outputs.ts';
import { recheckTime, type IssueReason, type ServingCertPlan } from '../../pki/serving-certs/plan.ts';
import { hasPrecedence, type Service } from '../../pki/serving-certs/request.ts';
import {
  markedService,
  ownership,
  withMarks,
  withOutputs,
  withServingCert,
  withTrust,
  writability,
  writtenOutputs,
  type Secret,
} from '../../pki/serving-certs/secret.ts';
import { parseCertificatePem, parsePrivateKeyPem } from '../../pki/x509/pem.ts';
import { CLUSTER_ROLE, refusable, REFUSED_RECHECK_MS } from '../write-refused.ts';
import { skewProblem } from '../clock-skew.ts';
import type { Refusal } from './serving-cert-events.ts';
import {
  extraMarks,
  needsClock,
  planOf,
  secretKeyOf,
  type ServingCertsContext,
  type ServingCertTask,
} from './serving-cert-task.ts';
import { textOf } from '../../pki/secret-data.ts';

type Repaired =
  | {
      readonly kind: 'issued';
      readonly reason: IssueReason;
      readonly secret: Secret;
      /** No watch reports a Secret whose label an admission policy removes. */
      readonly recheckAt: Date;
    }
  /** `updated`: its marks, chain, bundle or outputs; the leaf and the key have not changed. */
  | { readonly kind: 'updated' | 'unchanged'; readonly plan: ServingCertPlan; readonly secret: Secret }
  | { readonly kind: 'refused'; readonly refusal: Refusal };

export type RepairResult = Repaired & { readonly missing?: Refusal | undefined };

/**
 * @param isAbsent the store has no such Secret. Then the first request is a create, which fails if the Secret does
 * exist. This saves a read when thousands of Services are created at once.
 * @throws {WriteRefused}
 */
export async function repairSecret(
  task: ServingCertTask,
  isAbsent: boolean,
  context: ServingCertsContext,
): Promise<RepairResult> {
  if (isAbsent) {
    const created = await createMissing(task, context);
    if (created !== undefined) return created;
  }
  const { identity, request, signal } = task;
  const ref = { namespace: identity.namespace, name: request.secretName };
  const live = await context.client.get<Secret>(secrets, ref, { signal });
  if (live === undefined) {
    const created = await createMissing(task, context);
    if (created !== undefined) return created;
    throw new Error(`another client has just created secret ${secretKeyOf(task)}`);
  }
  const standing = await standingOf(live, task, context);
  switch (standing) {
    case 'ours':
      return await improve(live, task, context);
    case 'wrong-type':
    case 'immutable':
    case 'foreign':
      if (standing !== 'foreign' && isTerminating(live)) return terminating(live);
      if (standing !== 'foreign' && request.replaceSecret && markedService(live) === identity.name)
        return await recreate(live, task, context);
      return refused({ kind: standing });
    case 'taken':
      return refused({ kind: 'taken', by: markedService(live) ?? '' });
  }
}

/** Deletes the Secret once. If a finalizer keeps it, the next reconcile sees that and waits. */
async function recreate(
  live: Secret,
  task: ServingCertTask,
  context: ServingCertsContext,
): Promise<RepairResult> {
  await deleteSecret(context.client, live, task.signal);
  return (await createMissing(task, context)) ?? terminating(live);
}

const isTerminating = ({ metadata }: Secret): boolean => metadata?.deletionTimestamp !== undefined;

const refused = (refusal: Refusal): RepairResult => ({ kind: 'refused', refusal });

const terminating = ({ metadata }: Secret): RepairResult =>
  refused({ kind: 'terminating', finalizers: metadata?.finalizers ?? [] });

/** Deletes the Secret only if its uid and resourceVersion are still those that were read. @throws {WriteRefused} */
export async function deleteSecret(
  client: Pick<KubeClient, 'delete'>,
  { metadata = {} }: Secret,
  signal: AbortSignal,
): Promise<void> {
  const { namespace, name = '', uid, resourceVersion } = metadata;
  await refusable('deploy/components/delete-secrets', () =>
    client.delete(secrets, { namespace, name }, { signal, preconditions: { uid, resourceVersion } }),
  );
}

/** Who owns the Secret. If it is marked for another Service, reads that Service. */
async function standingOf(
  live: Secret,
  { identity, request, service, signal }: ServingCertTask,
  { client, requests, openshift }: ServingCertsContext,
) {
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

async function improve(
  live: Secret,
  task: ServingCertTask,
  context: ServingCertsContext,
): Promise<RepairResult> {
  const facts = readServingCert(live.data, task.authority);
  const plan = planOf(facts, task);
  const replace = (secret: Secret) =>
    refusable(CLUSTER_ROLE, () => context.client.replace(secrets, secret, { signal: task.signal }));
  const problem =
    facts?.kind === 'usable' && needsClock(plan) ? skewProblem(context.serverClock.skewMs()) : undefined;
  if (problem !== undefined) return refused({ kind: 'clock', message: problem });
  if (plan.kind === 'issue') {
    const { secret, ...rest } = await issue(live, task, context);
    return issued(plan.reason, secret, await replace(secret), rest, task);
  }
  const refreshed = plan.kind === 'keep' ? live : withCurrentTrust(live, plan, facts, task);
  const notAfter = facts?.kind === 'usable' ? facts.notAfter : undefined;
  const { secret, missing } = await complete(refreshed, live, notAfter, task, context);
  return isDeepStrictEqual(secret, live)
    ? { kind: 'unchanged', plan, secret: live, missing }
    : { kind: 'updated', plan, secret: await replace(secret), missing };
}

function withCurrentTrust(
  live: Secret,
  { kind }: ServingCertPlan,
  facts: ServingCertFacts | undefined,
  { signing: { bridges, bundle } }: ServingCertTask,
): Secret {
  const chain = kind === 'rechain' && facts?.kind === 'usable' ? chainOf(facts.leaf, bridges) : undefined;
  return withTrust(live, { chain, bundle });
}

function issued(
  reason: IssueReason,
  sent: Secret,
  written: Secret,
  { missing, recheckAt }: Pick<Issued, 'missing' | 'recheckAt'>,
  { now }: ServingCertTask,
): RepairResult {
  const isKept = isDeepStrictEqual(written.data, sent.data);
  const next = isKept ? recheckAt : new Date(now.getTime() + REFUSED_RECHECK_MS);
  return { kind: 'issued', reason, secret: written, missing, recheckAt: next };
}

type Issued = Awaited<ReturnType<typeof issue>>;

/** The Secret with a new cert, before it is written. */
async function issue(existing: Secret | undefined, task: ServingCertTask, context: ServingCertsContext) {
  const { identity, request, authority, signing, now } = task;
  const keyPair = await context.generateKeyPair(request.algorithm);
  const serial = context.randomSerial();
  const order = { ...request, authority, sign: context.sign, keyPair, serial, now };
  const { chain, ...validity } = await issueServingCert(order);
  const fresh = withServingCert(existing, {
    service: identity,
    secretName: request.secretName,
    chain,
    privateKey: keyPair.privateKey,
    bundle: signing.bundle,
  });
  const recheckAt = recheckTime(validity, { ...request, now, serviceUid: identity.uid, signing });
  return { ...(await complete(fresh, undefined, validity.notAfter, task, context)), recheckAt };
}

/** Undefined: the Secret exists already. */
async function createMissing(
  task: ServingCertTask,
  context: ServingCertsContext,
): Promise<RepairResult | undefined> {
  const { secret, ...rest } = await issue(undefined, task, context);
  const created = await refusable(CLUSTER_ROLE, async () => {
    try {
      return await context.client.create(secrets, secret, { signal: task.signal });
    } catch (error) {
      if (isAlreadyExists(error)) return 'exists';
      // 403 with this cause while the namespace is being deleted, 404 once it is gone.
      const isEnding =
        isNotFound(error) ||
        (error instanceof ApiError && error.causes.some((cause) => cause.reason === 'NamespaceTerminating'));
      if (isEnding) return 'namespace-ends';
      throw error;
    }
  });
  if (created === 'exists') return undefined;
  if (created === 'namespace-ends') return refused({ kind: created });
  return issued('Missing', secret, created, rest, task);
}

/**
 * `secret` with its outputs and marks.
 * @param before the Secret whose outputs still fit the cert. They stay if their password cannot be read now.
 */
async function complete(
  secret: Secret,
  before: Secret | undefined,
  notAfter: Date | undefined,
  task: ServingCertTask,
  { client }: Pick<ServingCertsContext, 'client'>,
): Promise<{ readonly secret: Secret; readonly missing: Refusal | undefined }> {
  const { identity, request, signing } = task;
  const password = await readPassword(task, client);
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
async function readPassword(
  { identity, request, signal }: ServingCertTask,
  client: Pick<KubeClient, 'get'>,
): Promise<string | undefined> {
  const { keystorePassword: source } = request;
  if (source === undefined || !request.outputs.some(isKeyStore)) return DEFAULT_KEYSTORE_PASSWORD;
  const ref = { namespace: identity.namespace, name: source.secretName };
  const secret = await client.get<Secret>(secrets, ref, { signal });
  const password = Buffer.from(secret?.data?.[source.key] ?? '', 'base64');
  return password.length === 0 || password.length > MAX_PASSWORD ? undefined : password.toString('utf8');
}
