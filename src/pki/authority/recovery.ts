import type { X509Certificate } from 'node:crypto';
import { keylessGeneration, type Authority } from './authority.ts';
import { generationId, type Generation, type GenerationState } from './generation.ts';
import { splitCertificates, toCertificatePem } from '../x509/pem.ts';

/** What the Secret of the authority holds. */
export type StoredAuthority =
  | { readonly kind: 'absent' }
  /** There is a Secret, and nothing in it: as people make one beforehand, or to consent to a new authority. */
  | { readonly kind: 'empty' }
  | { readonly kind: 'unreadable'; readonly message: string }
  | { readonly kind: 'readable'; readonly authority: Authority };

export interface AuthorityEvidence {
  readonly stored: StoredAuthority;
  /** The CA bundles that we published, wherever they still stand. Whether their text can be read does not matter. */
  readonly published: readonly string[];
  /** Serving certs of ours in this cluster. Looked for only where nothing is stored. */
  readonly servingCerts: number;
  /** What this process went on with last. */
  readonly lastGood: Authority | undefined;
  /** The value of the annotation that allows a new authority. */
  readonly consent: string | undefined;
  readonly now: Date;
}

export type BrokenReason = 'Missing' | 'Unreadable' | 'OlderThanPublished';

export type AuthorityVerdict =
  | { readonly kind: 'usable'; readonly authority: Authority }
  /** Nobody trusts anything of ours yet. */
  | { readonly kind: 'bootstrap' }
  /** What this process knows is good, and newer than what is stored. */
  | { readonly kind: 'write-back'; readonly reason: BrokenReason; readonly authority: Authority }
  /** A person consented: what is stored is used, and what else is trusted stays trusted until nothing needs it. */
  | { readonly kind: 'adopt'; readonly authority: Authority }
  /** A person consented: a new authority, and the roots that are still trusted beside it. */
  | { readonly kind: 'start-over'; readonly retained: readonly Generation[] }
  | { readonly kind: 'broken'; readonly reason: BrokenReason; readonly message: string };

/** Old roots beside a new one; more would be of no use, because their certs are replaced at once. */
const MAX_RETAINED = 2;

/**
 * Whether what is stored may be used. A new authority while an old one is trusted somewhere would be an outage, so it is never
 * made in silence: only where nothing of ours can be found, or where a person says so.
 */
export function judgeAuthority(evidence: AuthorityEvidence): AuthorityVerdict {
  const { stored, lastGood, consent, now } = evidence;
  const roots = ownRoots(evidence.published);
  if (stored.kind === 'readable') {
    const problem = regression(stored.authority, lastGood, roots);
    if (problem === undefined)
      // The consent is used up, so that it cannot come true years later.
      return consent === undefined
        ? { kind: 'usable', authority: stored.authority }
        : { kind: 'adopt', authority: stored.authority };
    if (consent !== undefined) return { kind: 'adopt', authority: withRoots(stored.authority, roots, now) };
    return mend(evidence, roots, 'OlderThanPublished', problem);
  }

  const isNew = evidence.published.length === 0 && evidence.servingCerts === 0 && lastGood === undefined;
  switch (stored.kind) {
    case 'absent':
      return isNew
        ? { kind: 'bootstrap' }
        : mend(evidence, roots, 'Missing', 'it is missing, and there is a CA bundle or a serving cert of it');
    case 'empty':
      return isNew ? { kind: 'bootstrap' } : mend(evidence, roots, 'Unreadable', 'it holds nothing');
    case 'unreadable':
      return mend(evidence, roots, 'Unreadable', stored.message);
  }
}

function mend(
  { lastGood, consent, stored, now }: AuthorityEvidence,
  roots: readonly X509Certificate[],
  reason: BrokenReason,
  message: string,
): AuthorityVerdict {
  if (lastGood !== undefined && unknownTo(lastGood, roots).length === 0)
    return { kind: 'write-back', reason, authority: lastGood };
  if (consent !== undefined && stored.kind !== 'readable')
    return { kind: 'start-over', retained: toGenerations(roots, now) };
  return { kind: 'broken', reason, message };
}

const STAGE: Readonly<Record<GenerationState, number>> = { pending: 0, active: 1, retiring: 2 };

/** How one sees that `stored` is an older copy, or somebody else's; undefined if it is neither. */
function regression(
  stored: Authority,
  lastGood: Authority | undefined,
  published: readonly X509Certificate[],
): string | undefined {
  const { generations, gone = [] } = stored;
  const [unknown] = unknownTo(stored, published);
  if (unknown !== undefined)
    return `it does not know generation ${unknown}, whose root is published: it is an older copy, or of another cluster`;
  for (const { id, state } of lastGood?.generations ?? []) {
    const found = generations.find((generation) => generation.id === id);
    if (found === undefined && !gone.includes(id))
      return `it does not know generation ${id}, which was there a moment ago: it is an older copy, or of another cluster`;
    if (found !== undefined && STAGE[found.state] < STAGE[state])
      return `generation ${id} is ${found.state} in it, and was ${state} a moment ago: it is an older copy`;
  }
  return undefined;
}

function unknownTo(
  { generations, gone = [] }: Authority,
  roots: readonly X509Certificate[],
): readonly string[] {
  const known = new Set([...generations.map(({ id }) => id), ...gone]);
  return roots.map(idOf).filter((id) => !known.has(id));
}

/**
 * The roots of ours in bundles that we published, each once, newest first. Told by a name that holds the hash of their own key:
 * what others add to a bundle is no sign of anything.
 */
function ownRoots(bundles: readonly string[]): readonly X509Certificate[] {
  const roots = bundles
    .flatMap(readableCertificates)
    .filter((root) => root.subject === `CN=gatehouse-serving-ca-${idOf(root)}`);
  return [...new Map(roots.map((root) => [idOf(root), root])).values()].sort(
    (a, b) => b.validFromDate.getTime() - a.validFromDate.getTime(),
  );
}

function readableCertificates(bundle: string): readonly X509Certificate[] {
  try {
    return splitCertificates(bundle);
  } catch {
    return [];
  }
}

const idOf = ({ publicKey }: X509Certificate): string => generationId(publicKey);

function toGenerations(roots: readonly X509Certificate[], now: Date): readonly Generation[] {
  return roots
    .filter(({ validToDate }) => validToDate > now)
    .slice(0, MAX_RETAINED)
    .map((root) => keylessGeneration(idOf(root), toCertificatePem([root]), now));
}

/** With roots that it does not know as generations without a key, behind those that it has. */
function withRoots(authority: Authority, roots: readonly X509Certificate[], now: Date): Authority {
  const unknown = new Set(unknownTo(authority, roots));
  const added = toGenerations(
    roots.filter((root) => unknown.has(idOf(root))),
    now,
  );
  const oldest = authority.generations.at(-1)?.id;
  // The bridge of the oldest leads to a root that is none of those behind it now.
  const generations = authority.generations.map((generation) =>
    generation.id === oldest && added.length > 0 ? { ...generation, bridge: undefined } : generation,
  );
  return { ...authority, generations: [...generations, ...added] };
}

/** As {@link judgeAuthority} wants it consented: `fresh` signs, and the old roots are trusted beside it. */
export function startOver(fresh: Authority, retained: readonly Generation[]): Authority {
  return { ...fresh, generations: [...fresh.generations, ...retained] };
}
