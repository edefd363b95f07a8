/**
 * On the leader: the Secret with every generation of the authority exists, is what it should be, and goes through its life. What
 * cannot be used is mended from what this process knows, or reported, and never silently replaced: every client still trusts
 * what it was.
 */
import { isDeepStrictEqual } from 'node:util';

import { EXCLUDE_FROM_BACKUP_LABEL } from '../../api/group.ts';
import { AUTHORITY_SECRET, NEW_AUTHORITY } from '../../pki/annotations.ts';
import { importAuthority, type ImportedAuthority } from '../../pki/authority/generation.ts';
import {
  judgeAuthority,
  startOver,
  type AuthorityVerdict,
  type BrokenReason,
  type StoredAuthority,
} from '../../pki/authority/recovery.ts';
import { AuthorityBroken, parseAuthority, withAuthority } from '../../pki/authority/secret.ts';
import { activeGeneration, authorityOf, type Authority } from '../../pki/authority/authority.ts';
import type { RotationPhase } from '../../pki/authority/rotation-plan.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import {
  brokenNote,
  caRefused,
  createSpeaker,
  madeNote,
  mendedNote,
  writeRefusedNote,
  type Say,
} from './authority-notes.ts';
import { requeueIn, type Reconcile, type ReconcileResult, type RecordEvent } from '../controller.ts';
import type { RotationNote } from './rotation-note.ts';
import { makeGeneration, stepRotation, type PublishedBundle, type RotationDeps } from './rotation.ts';
import { createRefusedWrites } from '../write-refused.ts';

/** For metrics. */
export interface AuthorityReport {
  readonly phase: RotationPhase | 'broken';
  /** What signers and publishers go on with; undefined: nothing that could be used. */
  readonly authority: Authority | undefined;
  readonly broken: BrokenReason | undefined;
}

export interface AuthorityDeps extends RotationDeps {
  /** Our own namespace. */
  readonly namespace: string;
  /** Secret with a CA that somebody else makes and rotates; undefined: we make our own. */
  readonly importFrom: string | undefined;
  /** From the API server, never from a store: "absent" leads to a new authority. */
  readonly readSecret: (name: string, signal: AbortSignal) => Promise<Secret | undefined>;
  /** Fails when the Secret exists. @throws WriteRefused */
  readonly createSecret: (secret: Secret, signal: AbortSignal) => Promise<unknown>;
  /** From the API server: where we published the bundle ourselves. */
  readonly readPublished: (signal: AbortSignal) => Promise<readonly PublishedBundle[]>;
  /** From the API server: serving certs of ours that belong to this cluster. */
  readonly countLeaves: (signal: AbortSignal) => Promise<number>;
  /** The authority as it is stored, for those who sign and publish. */
  readonly onAuthority: (authority: Authority) => void;
  readonly report: (report: AuthorityReport) => void;
  /** A good copy took the place of what was stored. */
  readonly onRestored: () => void;
  readonly record: RecordEvent;
  readonly now: () => Date;
}

/** How often a broken authority is looked at when nobody touches it, in milliseconds. */
const BROKEN_MS = 30_000;

/** What was read, and what this process knows. */
interface Observed {
  readonly secret: Secret | undefined;
  readonly published: readonly PublishedBundle[];
  readonly verdict: AuthorityVerdict;
  readonly now: Date;
}

/** The reconciler as its parts see it. */
interface Work extends AuthorityDeps {
  /** To signers and publishers, if it is another one than before: everything derived from it is looked at again. */
  readonly handOut: (authority: Authority) => void;
  readonly say: Say;
}

export function createAuthorityReconciler(deps: AuthorityDeps): Reconcile {
  let lastGood: Authority | undefined;
  const handOut = (authority: Authority) => {
    const isNews = !isDeepStrictEqual(authority, lastGood);
    lastGood = authority;
    if (isNews) deps.onAuthority(authority);
  };
  const work: Work = { ...deps, handOut, say: createSpeaker(deps) };
  const refusedWrites = createRefusedWrites(deps.now);

  return async (key, signal) => {
    const observed = await observe(deps, lastGood, signal);
    try {
      const result = await bringOn(observed, work, lastGood, signal);
      refusedWrites.over(key);
      return result;
    } catch (error) {
      if (refusedWrites.isConfirmed(key, error)) work.say(observed.secret, writeRefusedNote(error));
      throw error;
    }
  };
}

async function bringOn(
  observed: Observed,
  work: Work,
  lastGood: Authority | undefined,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  const { secret, verdict, now } = observed;
  if (verdict.kind === 'usable' && secret !== undefined)
    return await rotate(observed, secret, verdict.authority, work, signal);
  if (verdict.kind === 'broken') {
    work.say(secret, brokenNote(verdict));
    work.report({ phase: 'broken', authority: lastGood, broken: verdict.reason });
    return requeueIn(BROKEN_MS, now);
  }
  const mended = await mend(observed, work, signal);
  if (mended === undefined) throw new Error('an authority that can be used has a secret');
  const generation = activeGeneration(mended.authority).id;
  work.log.info({ verdict: verdict.kind, generation }, 'wrote the authority');
  work.say(secret, mended.note);
  if (verdict.kind === 'write-back') work.onRestored();
  work.handOut(mended.authority);
  return requeueIn(0, now);
}

async function rotate(
  { published, now }: Observed,
  secret: Secret,
  authority: Authority,
  work: Work,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  work.handOut(authority); // before anything that may fail: certs are renewed also while the authority cannot be written
  const found = await readImported(work, now, signal);
  if (found.problem !== undefined) work.say(secret, caRefused(work, found.problem));
  const imported = work.importFrom === undefined ? undefined : (found.imported ?? standIn(authority));
  const outcome = await stepRotation(work, { secret, authority, published, imported, now }, signal);
  work.report({ phase: outcome.phase, authority: outcome.authority, broken: undefined });
  if (found.problem === undefined) work.say(secret, outcome.note);
  if (outcome.kind === 'waiting') return { kind: 'requeue', at: outcome.recheckAt };
  work.handOut(outcome.authority);
  return requeueIn(0, now); // the next step may be due at once
}

/** @returns the authority that was written */
async function mend(
  { secret, verdict, now }: Observed,
  work: Work,
  signal: AbortSignal,
): Promise<{ readonly authority: Authority; readonly note: RotationNote } | undefined> {
  switch (verdict.kind) {
    case 'usable':
    case 'broken':
      return undefined;
    case 'bootstrap':
    case 'start-over': {
      const { imported, problem } = await readImported(work, now, signal);
      if (problem !== undefined) throw new Error(caRefused(work, problem).message);
      const fresh = authorityOf(await makeGeneration(work, imported, now, undefined), now);
      const authority = verdict.kind === 'bootstrap' ? fresh : startOver(fresh, verdict.retained);
      await write(work, secret, authority, signal);
      return { authority, note: madeNote(verdict.kind, authority) };
    }
    case 'write-back':
    case 'adopt':
      await write(work, secret, verdict.authority, signal);
      return { authority: verdict.authority, note: mendedNote(verdict) };
  }
}

async function observe(
  deps: AuthorityDeps,
  lastGood: Authority | undefined,
  signal: AbortSignal,
): Promise<Observed> {
  const now = deps.now();
  const secret = await deps.readSecret(AUTHORITY_SECRET, signal);
  const published = await deps.readPublished(signal);
  const stored = toStored(secret);
  const verdict = judgeAuthority({
    stored,
    published: published.flatMap(({ bundle }) => (bundle === undefined ? [] : [bundle])),
    leaves: stored.kind === 'readable' ? 0 : await deps.countLeaves(signal),
    lastGood,
    consent: secret?.metadata?.annotations?.[NEW_AUTHORITY],
    now,
  });
  return { secret, published, verdict, now };
}

function toStored(secret: Secret | undefined): StoredAuthority {
  if (secret === undefined) return { kind: 'absent' };
  if (Object.keys(secret.data ?? {}).length === 0) return { kind: 'empty' };
  try {
    return { kind: 'readable', authority: parseAuthority(secret.data ?? {}) };
  } catch (error) {
    if (error instanceof AuthorityBroken) return { kind: 'unreadable', message: error.message };
    throw error;
  }
}

interface Imported {
  readonly imported: ImportedAuthority | undefined;
  /** For people: why the Secret cannot be used. */
  readonly problem: string | undefined;
}

async function readImported(
  { importFrom, readSecret }: Pick<AuthorityDeps, 'importFrom' | 'readSecret'>,
  now: Date,
  signal: AbortSignal,
): Promise<Imported> {
  if (importFrom === undefined) return { imported: undefined, problem: undefined };
  const secret = await readSecret(importFrom, signal);
  if (secret === undefined) return { imported: undefined, problem: 'there is no such secret' };
  const result = importAuthority(secret.data, now);
  return result.kind === 'imported'
    ? { imported: result.authority, problem: undefined }
    : { imported: undefined, problem: result.problem };
}

/** While the Secret of the owner cannot be used, the CA in use is taken for theirs: nothing of ours takes its place. */
function standIn(authority: Authority): ImportedAuthority | undefined {
  const { id, certificate, key } = activeGeneration(authority);
  return key === undefined ? undefined : { id, certificate, key };
}

/** Creates the Secret, or replaces what was read; a consent is used up by it. */
async function write(
  {
    namespace,
    createSecret,
    replaceSecret,
  }: Pick<AuthorityDeps, 'namespace' | 'createSecret' | 'replaceSecret'>,
  existing: Secret | undefined,
  authority: Authority,
  signal: AbortSignal,
): Promise<void> {
  const { metadata } = existing ?? {};
  const annotations = Object.entries(metadata?.annotations ?? {}).filter(([name]) => name !== NEW_AUTHORITY);
  const secret: Secret = {
    apiVersion: 'v1',
    kind: 'Secret',
    type: 'gatehouse.dev/authority',
    ...existing,
    metadata: {
      ...metadata,
      namespace,
      name: AUTHORITY_SECRET,
      labels: { ...metadata?.labels, ...ownStateLabels },
      annotations: Object.fromEntries(annotations),
    },
    data: withAuthority(existing?.data, authority),
  };
  // Another leader may be as far as we are: one of the two writes fails, and its authority is forgotten.
  await (existing === undefined ? createSecret : replaceSecret)(secret, signal);
}

/** State of ours belongs to this cluster: a backup must not bring it back, here or elsewhere. */
export const ownStateLabels: Readonly<Record<string, string>> = {
  'app.kubernetes.io/managed-by': 'gatehouse',
  [EXCLUDE_FROM_BACKUP_LABEL]: 'true',
};
