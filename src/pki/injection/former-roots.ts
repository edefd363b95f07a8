/** Roots that a source of a CA bundle has dropped: its servers may present certificates of them for a while. */
import { X509Certificate } from 'node:crypto';
import { jsonIn } from '../../json/json.ts';
import { MAX_BUNDLE_BYTES } from '../authority/authority.ts';
import { after, DAY } from '../durations.ts';
import { splitCertificates, toCertificatePem } from '../x509/pem.ts';
import type { BundleState } from './source.ts';

/** As long as most certificates live. */
export const OVERLAP_MS = 90 * DAY;
const MAX_FORMER = 8;

export interface KnownRoot {
  /** Base64 of DER. */
  readonly der: string;
  /** In milliseconds; undefined: the source holds it. */
  readonly droppedAt?: number | undefined;
}

/** By the name of the source. Only what a source has held is in it: what a target holds proves nothing. */
export type RootRecord = ReadonlyMap<string, readonly KnownRoot[]>;

/**
 * The bundle with the roots that the source has dropped, and what to remember of the source.
 * @param ours the bundle of the authority, which has its own overlap. What it distrusts must go immediately
 */
export function withFormerRoots(
  state: BundleState,
  before: readonly KnownRoot[] = [],
  now: Date,
  ours = '',
): { readonly state: BundleState; readonly roots: readonly KnownRoot[] } {
  if (state.kind !== 'bundle') return { state, roots: before };
  const held = splitCertificates(state.pem);
  const given = held.map((certificate): KnownRoot => ({ der: certificate.raw.toString('base64') }));
  let room = MAX_BUNDLE_BYTES - state.pem.length;
  const isOurs = held.some((certificate) => ours.includes(toCertificatePem([certificate])));
  const former = (isOurs ? [] : before)
    .filter(({ der }) => !given.some((one) => one.der === der))
    .map(({ der, droppedAt = now.getTime() }) => ({ der, droppedAt }))
    .filter((root) => endOf(root) > now.getTime())
    .sort((a, b) => b.droppedAt - a.droppedAt)
    .filter((root) => {
      room -= toCertificatePem([certificateOf(root)]).length;
      return room >= 0;
    })
    .slice(0, MAX_FORMER);
  const roots = [...given, ...former];
  const pem = toCertificatePem([...held, ...former.map(certificateOf)]);
  return { state: { kind: 'bundle', pem, until: new Date(Math.min(...roots.map(endOf))) }, roots };
}

const certificateOf = ({ der }: KnownRoot) => new X509Certificate(Buffer.from(der, 'base64'));

function endOf(root: KnownRoot): number {
  const notAfter = certificateOf(root).validToDate.getTime();
  const { droppedAt } = root;
  return droppedAt === undefined
    ? notAfter
    : Math.min(notAfter, after(new Date(droppedAt), OVERLAP_MS).getTime());
}

/** The API server allows 256 KiB of annotations. */
const MAX_RECORD_CHARS = 200_000;

/** Small sources come first: a large one must not displace others. Sources without room are forgotten, or `lost` if needed. */
export function formatRecord(
  record: Map<string, readonly KnownRoot[]>,
  isNeeded: (source: string) => boolean,
): { readonly text: string; readonly lost: readonly string[] } {
  const entries = [...record]
    .map(([source, roots]) => [source, roots.map(({ der, droppedAt }) => [der, droppedAt ?? 0])] as const)
    .map((entry) => ({ entry, length: JSON.stringify(entry).length + 1 }))
    .sort((a, b) => Number(isNeeded(b.entry[0])) - Number(isNeeded(a.entry[0])) || a.length - b.length);
  let room = MAX_RECORD_CHARS;
  const left: string[] = [];
  const kept = entries.filter(({ entry: [source], length }) => {
    const fits = length <= room;
    if (fits) room -= length;
    else left.push(source);
    return fits;
  });
  for (const source of left) if (!isNeeded(source)) record.delete(source);
  return { text: JSON.stringify(kept.map(({ entry }) => entry)), lost: left.filter(isNeeded) };
}

/** Forgets the roots that sources have dropped. */
export function dropFormer(record: Map<string, readonly KnownRoot[]>): void {
  for (const [source, roots] of record)
    record.set(
      source,
      roots.filter(({ droppedAt }) => droppedAt === undefined),
    );
}

/** Entries that are broken are left out. */
export function parseRecord(text: string | undefined): RootRecord {
  const parsed = jsonIn(text ?? '');
  if (!Array.isArray(parsed)) return new Map();
  return new Map(
    parsed.flatMap((entry: unknown): readonly (readonly [string, readonly KnownRoot[]])[] => {
      const [source, roots] = Array.isArray(entry) ? (entry as readonly unknown[]) : [];
      return typeof source === 'string' && Array.isArray(roots) ? [[source, roots.flatMap(rootOf)]] : [];
    }),
  );
}

function rootOf(entry: unknown): readonly KnownRoot[] {
  const [der, droppedAt] = Array.isArray(entry) ? (entry as readonly unknown[]) : [];
  if (typeof der !== 'string' || typeof droppedAt !== 'number') return [];
  const root = droppedAt === 0 ? { der } : { der, droppedAt };
  try {
    return Number.isNaN(endOf(root)) ? [] : [root];
  } catch {
    return []; // no certificate
  }
}
