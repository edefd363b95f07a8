import type { X509Certificate } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { uniqueBy } from '../../json/json.ts';
import { keylessGeneration, MAX_GONE, type Authority } from './authority.ts';
import {
  generationId,
  isOwnRoot,
  isSameCa,
  rootOf,
  rootsOf,
  stageOf,
  type Generation,
} from './generation.ts';
import { scanCertificates, toCertificatePem } from '../x509/pem.ts';

export type StoredAuthority =
  | { readonly kind: 'absent' }
  /** The Secret exists without data: a user made it in advance, or to consent to a new authority. */
  | { readonly kind: 'empty' }
  | { readonly kind: 'unreadable'; readonly message: string }
  | { readonly kind: 'readable'; readonly authority: Authority };

export interface AuthorityEvidence {
  readonly stored: StoredAuthority;
  /** All CA bundles of ours that are still published, readable or not. */
  readonly published: readonly string[];
  /** How many serving certs of ours this cluster has. Counted only if no authority can be read. */
  readonly servingCerts: number;
  readonly lastGood: Authority | undefined;
  readonly consent: string | undefined;
  readonly now: Date;
}

export type BrokenReason = 'Missing' | 'Unreadable' | 'OlderThanPublished' | 'Incomplete';

export type AuthorityVerdict =
  | { readonly kind: 'usable'; readonly authority: Authority }
  /** No client trusts anything of ours yet. */
  | { readonly kind: 'bootstrap' }
  /** The copy in this process is good, and newer than the stored one. */
  | { readonly kind: 'write-back'; readonly reason: BrokenReason; readonly authority: Authority }
  /** A user consented: use the stored authority, and trust other published roots until nothing needs them. */
  | { readonly kind: 'adopt'; readonly authority: Authority }
  /** A user consented: make a new authority, and trust the published roots too. */
  | { readonly kind: 'start-over'; readonly retained: readonly Generation[] }
  | { readonly kind: 'broken'; readonly reason: BrokenReason; readonly message: string };

/** How many old roots to keep with a new one. More would not help, because their certs are replaced immediately. */
const MAX_RETAINED = 2;

/** A new authority would be an outage while clients trust an old one: it needs a cluster without traces, or consent. */
export function judgeAuthority(evidence: AuthorityEvidence): AuthorityVerdict {
  const { stored, lastGood, consent, now } = evidence;
  const roots = ownRoots(evidence.published);
  if (stored.kind === 'readable') {
    const problem = regression(stored.authority, lastGood, roots);
    const whole = withPartsOf(lastGood ?? stored.authority, stored.authority, now);
    if (problem === undefined && consent === undefined && !isDeepStrictEqual(whole, stored.authority))
      return { kind: 'write-back', reason: 'Incomplete', authority: whole };
    if (problem === undefined)
      // `adopt` writes the Secret without the consent, so that the consent cannot take effect years later.
      return { kind: consent === undefined ? 'usable' : 'adopt', authority: stored.authority };
    if (consent !== undefined) return { kind: 'adopt', authority: withRoots(stored.authority, roots, now) };
    return recover(evidence, roots, 'OlderThanPublished', problem);
  }

  const isNew = evidence.published.length === 0 && evidence.servingCerts === 0 && lastGood === undefined;
  if (isNew && stored.kind !== 'unreadable') return { kind: 'bootstrap' };
  switch (stored.kind) {
    case 'absent': {
      const problem = 'it is missing, and there is a CA bundle or a serving cert of it';
      return recover(evidence, roots, 'Missing', problem);
    }
    case 'empty':
      return recover(evidence, roots, 'Unreadable', 'it holds nothing');
    case 'unreadable':
      return recover(evidence, roots, 'Unreadable', stored.message);
  }
}

function recover(
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

/** Why `stored` must be an older copy or come from another cluster; undefined if it is neither. */
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
    if (found !== undefined && stageOf(found.state) < stageOf(state))
      return `generation ${id} is ${found.state} in it, and was ${state} a moment ago: it is an older copy`;
  }
  const isIn = (authority: Authority | undefined, id: string) =>
    authority?.generations.some((generation) => generation.id === id) === true;
  // A CA whose owner supplies it again is among both.
  const back = lastGood?.gone?.find((id) => isIn(stored, id) && !isIn(lastGood, id) && !gone.includes(id));
  return back && `it contains generation ${back}, which was removed before: it is an older copy`;
}

/** With the parts that no step takes away while a generation stays. The rest another leader may have changed. */
function withPartsOf(lastGood: Authority, stored: Authority, now: Date): Authority {
  const generations = stored.generations.map((generation, index) => {
    const known = lastGood.generations.findIndex(({ id }) => id === generation.id);
    const before = lastGood.generations[known];
    if (before === undefined) return generation;
    const previous = stored.generations[index + 1]?.id;
    const hasSamePrevious = previous !== undefined && previous === lastGood.generations[known + 1]?.id;
    return {
      ...withRootsOf(before, generation, now),
      ...(hasSamePrevious && before.bridge !== undefined ? { bridge: before.bridge } : {}),
      ...laterTimes(before, generation, now),
    };
  });
  const gone = [...new Set([...(stored.gone ?? []), ...(lastGood.gone ?? [])])].slice(0, MAX_GONE);
  const rotatedFor = stored.rotatedFor ?? lastGood.rotatedFor;
  return {
    generations,
    ...(gone.length === 0 && stored.gone === undefined ? {} : { gone }),
    ...(rotatedFor === undefined ? {} : { rotatedFor }),
  };
}

function withRootsOf(before: Generation, stored: Generation, now: Date): Generation {
  const present = new Set(rootsOf(stored).map(({ fingerprint256 }) => fingerprint256));
  const lost = rootsOf(before).filter((one) => one.validToDate > now && !present.has(one.fingerprint256));
  if (lost.length === 0) return stored;
  if (isSameCa(rootOf(before), rootOf(stored)))
    return { ...stored, formerRoots: toCertificatePem([...rootsOf(stored).slice(1), ...lost]) };
  const { certificate, chain, formerRoots, key } = before;
  return { ...stored, certificate, chain, formerRoots, key: stored.key && key };
}

const TIMES = ['createdAt', 'publishedAt', 'activatedAt', 'trustedUntil'] as const;

/** Another leader corrects a time in the future, which a wrong clock wrote, but no record of trust. */
const laterTimes = (before: Generation, stored: Generation, now: Date): Partial<Generation> =>
  Object.fromEntries(
    TIMES.map((name) => {
      const [known, found] = [before[name], stored[name]];
      const mayRestore = known !== undefined && (name === 'trustedUntil' || known <= now);
      return [name, mayRestore && (found === undefined || found < known) ? known : found];
    }),
  );

function unknownTo(
  { generations, gone = [] }: Authority,
  roots: readonly X509Certificate[],
): readonly string[] {
  const known = new Set([...generations.map(({ id }) => id), ...gone]);
  return roots.map(idOf).filter((id) => !known.has(id));
}

/** Newest first, also of a bundle with broken parts. Roots that others add to a bundle prove nothing. */
function ownRoots(bundles: readonly string[]): readonly X509Certificate[] {
  const found = bundles.flatMap((bundle) => [...scanCertificates(bundle)]);
  const roots = found.flatMap((one) => (one instanceof Error || !isOwnRoot(one) ? [] : [one]));
  return uniqueBy(roots, idOf).toSorted((a, b) => b.validFromDate.getTime() - a.validFromDate.getTime());
}

const idOf = ({ publicKey }: X509Certificate): string => generationId(publicKey);

function toGenerations(roots: readonly X509Certificate[], now: Date): readonly Generation[] {
  return roots
    .filter(({ validToDate }) => validToDate > now)
    .slice(0, MAX_RETAINED)
    .map((root) => keylessGeneration(idOf(root), toCertificatePem([root]), now));
}

/** Adds the roots that `authority` does not know, as its oldest generations, without keys. */
function withRoots(authority: Authority, roots: readonly X509Certificate[], now: Date): Authority {
  const unknown = new Set(unknownTo(authority, roots));
  const added = toGenerations(
    roots.filter((root) => unknown.has(idOf(root))),
    now,
  );
  const oldest = authority.generations.at(-1)?.id;
  // The bridge of the former oldest generation does not lead to any of the added roots.
  const generations = authority.generations.map((generation) =>
    generation.id === oldest && added.length > 0 ? { ...generation, bridge: undefined } : generation,
  );
  return { ...authority, generations: [...generations, ...added] };
}

export const startOver = (
  fresh: Authority,
  retained: readonly Generation[],
  rotatedFor: string | undefined,
): Authority => ({
  ...fresh,
  generations: [...fresh.generations, ...retained],
  ...(rotatedFor === undefined ? {} : { rotatedFor }),
});
