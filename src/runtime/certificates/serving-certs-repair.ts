/** Brings one Secret to what it should be: decided on what the API server holds, written at most once. */
import { isDeepStrictEqual } from 'node:util';

import type { KeyAlgorithm, KeyPair } from '../../pki/x509/keys.ts';
import { DEFAULT_KEYSTORE_PASSWORD } from '../../pki/serving-certs/key-store.ts';
import { parseCertificatePem, parsePrivateKeyPem } from '../../pki/x509/pem.ts';
import { goesBefore, type SecretClaim, type Service } from '../../pki/serving-certs/request.ts';
import {
  markedService,
  ownership,
  withBundle,
  withMarks,
  withOutputs,
  withServingCert,
  writability,
  writtenOutputs,
  type Secret,
} from '../../pki/serving-certs/secret.ts';
import { TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY } from '../../pki/annotations.ts';
import { readServingCert } from '../../pki/serving-certs/facts.ts';
import { outputData, type Output } from '../../pki/serving-certs/outputs.ts';
import type { IssueReason, ServingCertPlan } from '../../pki/serving-certs/plan.ts';
import { issueServingCert } from '../../pki/serving-certs/issue.ts';
import { extraMarks, planOf, secretKeyOf, type Case } from './serving-certs-case.ts';
import type { Refusal } from './serving-certs-refusal.ts';

export interface RepairDeps {
  /** From the API server: what is written is decided on this. */
  readonly readSecret: (namespace: string, name: string, signal: AbortSignal) => Promise<Secret | undefined>;
  /** `exists`: there is a Secret of this name. `namespace-ends`: nothing is created there any more. @throws WriteRefused */
  readonly createSecret: (
    secret: Secret,
    signal: AbortSignal,
  ) => Promise<Secret | 'exists' | 'namespace-ends'>;
  /** Writes the Secret if it still has the resourceVersion in its metadata. @throws WriteRefused */
  readonly replaceSecret: (secret: Secret, signal: AbortSignal) => Promise<Secret>;
  /** Deletes the Secret if it still has the uid and resourceVersion in its metadata. @throws WriteRefused */
  readonly deleteSecret: (secret: Secret, signal: AbortSignal) => Promise<unknown>;
  readonly readService: (
    namespace: string,
    name: string,
    signal: AbortSignal,
  ) => Promise<Service | undefined>;
  /** What a Service lays claim to: the name of a Secret in its namespace. */
  readonly claimOf: (service: Service) => (SecretClaim & { readonly secretName: string }) | undefined;
  readonly openshift: boolean;
  /**
   * What is wrong with the clocks; undefined: nothing. While it is unknown what time it is, nothing that works is replaced: the new
   * cert could be expired, or not valid yet, for everybody else.
   */
  readonly clockProblem: () => string | undefined;
  readonly generateKeyPair: (algorithm: KeyAlgorithm) => Promise<KeyPair>;
  readonly randomSerial: () => Uint8Array;
}

export type Repaired =
  | { readonly kind: 'issued'; readonly reason: IssueReason; readonly secret: Secret }
  /** It needed other marks, another bundle or other outputs; the cert is the one it had. */
  | { readonly kind: 'mended'; readonly plan: ServingCertPlan; readonly secret: Secret }
  | { readonly kind: 'unchanged'; readonly plan: ServingCertPlan; readonly secret: Secret }
  | { readonly kind: 'refused'; readonly refusal: Refusal };

/** What it did, and whether the outputs are all there: `missing` says why not. */
export type RepairResult = Repaired & { readonly missing?: Refusal | undefined };

/**
 * @param isAbsent the store knows of no such Secret. Then one is made without a look: that fails if there is one after all, and
 * saves a request where thousands of Services are created at once.
 */
export async function repair(
  work: Case,
  isAbsent: boolean,
  deps: RepairDeps,
  signal: AbortSignal,
): Promise<RepairResult> {
  if (isAbsent) {
    const made = await issue(undefined, 'Missing', work, deps, signal);
    if (made !== 'exists') return made;
  }
  const { identity, order } = work;
  const live = await deps.readSecret(identity.namespace, order.secretName, signal);
  if (live === undefined) {
    const made = await issue(undefined, 'Missing', work, deps, signal);
    if (made !== 'exists') return made;
    throw new Error(`secret ${secretKeyOf(work)} was made by someone else a moment ago`);
  }
  const standing = await standingOf(live, work, deps, signal);
  switch (standing) {
    case 'ours':
      return await improve(live, work, deps, signal);
    case 'wrong-type':
    case 'immutable':
      if (order.replaceSecret && markedService(live) === identity.name) {
        await deps.deleteSecret(live, signal);
        return await repair(work, true, deps, signal);
      }
      return { kind: 'refused', refusal: { kind: standing } };
    case 'foreign':
      return { kind: 'refused', refusal: { kind: 'foreign' } };
    case 'taken':
      return { kind: 'refused', refusal: { kind: 'taken', by: markedService(live) ?? '' } };
  }
}

/** Whose the Secret is, after a look at the other Service that it may be marked for. */
async function standingOf(
  live: Secret,
  { identity, order, service }: Case,
  deps: RepairDeps,
  signal: AbortSignal,
) {
  const owner = ownership(live, identity, { openshift: deps.openshift });
  if (owner !== 'another-service') return owner;
  const holder = await deps.readService(identity.namespace, markedService(live) ?? '', signal);
  const [theirs, ours] = [holder && deps.claimOf(holder), deps.claimOf(service)];
  const holds = theirs?.secretName === order.secretName && (ours === undefined || goesBefore(theirs, ours));
  return holds ? 'taken' : writability(live);
}

async function improve(
  live: Secret,
  work: Case,
  deps: RepairDeps,
  signal: AbortSignal,
): Promise<RepairResult> {
  const facts = readServingCert(live.data, work.authority);
  const plan = planOf(facts, work);
  if (plan.kind === 'issue') {
    const problem = facts?.kind === 'usable' ? deps.clockProblem() : undefined;
    if (problem !== undefined) return { kind: 'refused', refusal: { kind: 'clock', message: problem } };
    const issued = await issue(live, plan.reason, work, deps, signal);
    if (issued !== 'exists') return issued;
    throw new Error(`secret ${secretKeyOf(work)} is not the one that was read`);
  }
  const refreshed = plan.kind === 'keep' ? live : withBundle(live, work.signing.bundle);
  const notAfter = facts?.kind === 'usable' ? facts.notAfter : undefined;
  const { secret, missing } = await complete(refreshed, live, notAfter, work, deps, signal);
  if (isDeepStrictEqual(secret, live)) return { kind: 'unchanged', plan, secret: live, missing };
  return { kind: 'mended', plan, secret: await deps.replaceSecret(secret, signal), missing };
}

/** `exists`: no Secret was to be seen, and there is one. */
async function issue(
  existing: Secret | undefined,
  reason: IssueReason,
  work: Case,
  deps: RepairDeps,
  signal: AbortSignal,
): Promise<RepairResult | 'exists'> {
  const { identity, order, authority, signing, now } = work;
  const keyPair = await deps.generateKeyPair(order.algorithm);
  const { chain, notAfter } = issueServingCert({
    authority,
    dnsNames: order.dnsNames,
    keyPair,
    serial: deps.randomSerial(),
    now,
    lifetimeMs: order.lifetimeMs,
  });
  const fresh = withServingCert(existing, {
    service: identity,
    secretName: order.secretName,
    chain,
    privateKey: keyPair.privateKey,
    bundle: signing.bundle,
  });
  const { secret, missing } = await complete(fresh, undefined, notAfter, work, deps, signal);
  const written = await (existing === undefined
    ? deps.createSecret(secret, signal)
    : deps.replaceSecret(secret, signal));
  if (written === 'exists') return written;
  if (written === 'namespace-ends') return { kind: 'refused', refusal: { kind: 'namespace-ends' } };
  return { kind: 'issued', reason, secret: written, missing };
}

/**
 * `secret` with its outputs and marks.
 * @param before the Secret whose outputs still fit the cert, should their password be out of reach now
 */
async function complete(
  secret: Secret,
  before: Secret | undefined,
  notAfter: Date | undefined,
  work: Case,
  deps: RepairDeps,
  signal: AbortSignal,
): Promise<{ readonly secret: Secret; readonly missing: Refusal | undefined }> {
  const { identity, order, signing } = work;
  const password = await passwordOf(work, deps, signal);
  const makeable = order.outputs.filter((output) => output !== 'pkcs12' || password !== undefined);
  const files =
    makeable.length === 0
      ? {} // as it is with most: nothing is read for them
      : await outputData(makeable, {
          chain: parseCertificatePem(textOf(secret, TLS_CERT_KEY)),
          privateKey: parsePrivateKeyPem(textOf(secret, TLS_PRIVATE_KEY_KEY)),
          bundle: signing.bundle,
          password: password ?? '',
        });
  const keepsStores =
    password === undefined && before !== undefined && writtenOutputs(before).includes('pkcs12');
  const outputs: readonly Output[] = keepsStores ? order.outputs : makeable;
  return {
    secret: withMarks(withOutputs(secret, outputs, files), identity, extraMarks(work, notAfter)),
    missing:
      password === undefined && order.keystorePassword !== undefined
        ? { kind: 'no-password', ...order.keystorePassword }
        : undefined,
  };
}

/** Undefined: the Secret that should hold it does not. Read each time, and kept nowhere. */
async function passwordOf({ identity, order }: Case, deps: RepairDeps, signal: AbortSignal) {
  const { keystorePassword: source } = order;
  if (source === undefined || !order.outputs.includes('pkcs12')) return DEFAULT_KEYSTORE_PASSWORD;
  const secret = await deps.readSecret(identity.namespace, source.secretName, signal);
  const value = secret?.data?.[source.key];
  return value === undefined || value === '' ? undefined : Buffer.from(value, 'base64').toString('utf8');
}

const textOf = ({ data }: Secret, key: string): string =>
  Buffer.from(data?.[key] ?? '', 'base64').toString('utf8');
