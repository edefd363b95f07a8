/** What to do about an object that may ask for a CA bundle. */
import { isDeepStrictEqual } from 'node:util';

import type { BundleState } from './source.ts';
import type { InjectionTarget, OwnEntry, Slot, TargetKind } from './target.ts';
import type { CertificatePem } from '../x509/pem.ts';

export type InjectionPlan =
  /** It is none of our business. */
  | { readonly kind: 'none' }
  /** The bundle is not known yet. */
  | { readonly kind: 'wait' }
  /** Nothing can be written until somebody mends what `problem` says. */
  | { readonly kind: 'invalid'; readonly problem: string }
  /** Give up all that we own but the bundles in `keep`. The values stay: a webhook must not fail because nobody renews it. */
  | { readonly kind: 'hand-back'; readonly keep: readonly string[]; readonly released: readonly string[] }
  | { readonly kind: 'current'; readonly problem: string | undefined }
  | {
      readonly kind: 'inject';
      /** All that we mean to own, also those that are right: an apply drops what it does not repeat. */
      readonly slots: readonly string[];
      /** Those that are wrong now. */
      readonly stale: readonly string[];
      readonly bundle: CertificatePem;
      readonly problem: string | undefined;
    };

/** Judged from its arguments alone. `bundle` is what the source of the request has to give. */
export function planInjection(kind: TargetKind, target: InjectionTarget, bundle: BundleState): InjectionPlan {
  const { request, own } = target;
  // What is being deleted is left alone, and a write would only hold it up.
  if (target.metadata?.deletionTimestamp !== undefined) return { kind: 'none' };
  const owned = ownedBy(kind, own);
  if (request.kind === 'invalid') return { kind: 'invalid', problem: request.message };

  const wanted = wantedSlots(target);
  const names = wanted.map(({ name }) => name);
  const released = owned.filter((name) => !names.includes(name));
  if (released.length > 0)
    return { kind: 'hand-back', keep: owned.filter((name) => names.includes(name)), released };
  const problem = problemOf(target);
  if (wanted.length === 0) return problem === undefined ? { kind: 'none' } : { kind: 'invalid', problem };
  switch (bundle.kind) {
    case 'unknown':
      return { kind: 'wait' };
    case 'unusable':
      return { kind: 'invalid', problem: bundle.message };
    case 'bundle': {
      const stale = wanted.filter((slot) => !holds(textIn(kind, slot), bundle.pem));
      if (stale.length > 0)
        return {
          kind: 'inject',
          slots: names,
          stale: stale.map(({ name }) => name),
          bundle: bundle.pem,
          problem,
        };
      return ownsTooMuch(kind, own, owned)
        ? { kind: 'hand-back', keep: owned, released: [] }
        : { kind: 'current', problem };
    }
  }
}

/** The slots that the request asks to be filled. Those by `url` only where they are named. */
export function wantedSlots({ request, slots }: InjectionTarget): readonly Slot[] {
  if (request.kind !== 'wanted') return [];
  const { webhooks } = request;
  return webhooks === 'all'
    ? slots.filter(({ reach }) => reach === 'service')
    : slots.filter(({ name }) => webhooks.includes(name));
}

/** The very text, but for line ends: not every reader of PEM skips what else somebody put between the certificates. */
const holds = (text: string, bundle: CertificatePem): boolean =>
  text === bundle || text.replaceAll('\r\n', '\n').trim() === bundle.trim();

/** The PEM that stands in a slot. */
export const textIn = ({ kind }: Pick<TargetKind, 'kind'>, { present = '' }: Slot): string =>
  kind === 'ConfigMap' ? present : Buffer.from(present, 'base64').toString('utf8');

function problemOf({ request, slots }: InjectionTarget): string | undefined {
  if (request.kind !== 'wanted' || request.webhooks === 'all') return undefined;
  const missing = request.webhooks.filter((name) => !slots.some((slot) => slot.name === name));
  return missing.length === 0 ? undefined : `there is no webhook named ${missing.join(', ')}`;
}

const ownedBy = (kind: TargetKind, own: readonly OwnEntry[]): readonly string[] => [
  ...new Set(own.flatMap(({ fields }) => kind.ownedSlots(fields))),
];

/** An apply makes us own what it needs beside the bundle, such as the names of webhooks. */
function ownsTooMuch(kind: TargetKind, own: readonly OwnEntry[], owned: readonly string[]): boolean {
  if (own.length === 0) return false;
  const intended = kind.ownership(owned);
  return !(own.length === 1 && intended !== undefined && isDeepStrictEqual(own[0]?.fields, intended));
}

/** Operations of a JSON patch (RFC 6902), good for the version of the object that was looked at and no other. */
export type HandBackOperation =
  | { readonly op: 'remove'; readonly path: string }
  | { readonly op: 'replace'; readonly path: string; readonly value: unknown };

/**
 * Leaves us with the bundles in `keep` and nothing else. Only managedFields change. Entries go from the last to the first,
 * because each removal moves those behind it.
 */
export function handBackOperations(
  kind: TargetKind,
  { own }: Pick<InjectionTarget, 'own'>,
  keep: readonly string[],
): readonly HandBackOperation[] {
  const intended = kind.ownership(keep);
  return own
    .map(({ index }, position): HandBackOperation => {
      const path = `/metadata/managedFields/${index}`;
      return intended !== undefined && position === 0
        ? { op: 'replace', path: `${path}/fieldsV1`, value: intended }
        : { op: 'remove', path };
    })
    .toReversed();
}
