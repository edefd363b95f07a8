import { isDeepStrictEqual } from 'node:util';
import type { JsonPatchOperation } from '../../json/json-patch.ts';
import type { BundleState } from './source.ts';
import type { InjectionTarget, OwnEntry, Slot, TargetKind } from './target.ts';
import { MAX_BUNDLE_BYTES } from '../authority/authority.ts';
import { isWrittenAs, readableCertificates, type CertificatePem } from '../x509/pem.ts';
export type InjectionPlan =
  | { readonly kind: 'none' }
  | { readonly kind: 'wait' }
  /** The injector writes nothing until a user fixes the `problem`. */
  | { readonly kind: 'invalid'; readonly problem: string }
  /** Give up ownership of all fields except the bundles in `keep`. The values stay, so that webhooks keep working. */
  | { readonly kind: 'hand-back'; readonly keep: readonly string[]; readonly released: readonly string[] }
  | { readonly kind: 'current'; readonly problem: string | undefined }
  | {
      readonly kind: 'inject';
      /** All slots to own, including the current ones: an apply removes fields that it does not repeat. */
      readonly slots: readonly string[];
      readonly stale: readonly string[];
      readonly bundle: CertificatePem;
      /** The stale slots hold an older version of the bundle, as during a rotation. */
      readonly routine: boolean;
      readonly problem: string | undefined;
    };

export function planInjection(kind: TargetKind, target: InjectionTarget, bundle: BundleState): InjectionPlan {
  const { request, own } = target;
  // A write would only delay the deletion.
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
      const stale = wanted.filter((slot) => !isWrittenAs(textIn(kind, slot), bundle.pem));
      if (stale.length > 0)
        return {
          kind: 'inject',
          slots: names,
          stale: stale.map(({ name }) => name),
          bundle: bundle.pem,
          routine: stale.every((slot) => sharesCertificate(textIn(kind, slot), bundle.pem)),
          problem,
        };
      return ownsTooMuch(kind, own, owned)
        ? { kind: 'hand-back', keep: owned, released: [] }
        : { kind: 'current', problem };
    }
  }
}

/** The slots that the request wants filled. Slots of webhooks with a `url` only if the request names them. */
export function wantedSlots({ request, slots }: InjectionTarget): readonly Slot[] {
  if (request.kind !== 'wanted') return [];
  const { webhooks } = request;
  return webhooks === 'all'
    ? slots.filter(({ reach }) => reach === 'service')
    : slots.filter(({ name }) => webhooks.includes(name));
}

/** Whether a client of the old text trusts a certificate of the bundle: consecutive bundles overlap. */
function sharesCertificate(text: string, bundle: CertificatePem): boolean {
  if (text === '' || text.length > MAX_BUNDLE_BYTES) return false;
  const current = new Set(readableCertificates(bundle)?.map(({ fingerprint256 }) => fingerprint256));
  return readableCertificates(text)?.some(({ fingerprint256 }) => current.has(fingerprint256)) === true;
}

export const textIn = ({ kind }: Pick<TargetKind, 'kind'>, { present = '' }: Slot): string =>
  kind === 'ConfigMap' || kind === 'ClusterTrustBundle'
    ? present
    : Buffer.from(present, 'base64').toString('utf8');

function problemOf({ request, slots }: InjectionTarget): string | undefined {
  if (request.kind !== 'wanted' || request.webhooks === 'all') return undefined;
  const missing = request.webhooks.filter((name) => !slots.some((slot) => slot.name === name));
  return missing.length === 0 ? undefined : `there is no webhook named ${missing.join(', ')}`;
}

const ownership = (kind: TargetKind, slots: readonly string[]) =>
  slots.length === 0 ? undefined : kind.ownership(slots);

const ownedBy = (kind: TargetKind, own: readonly OwnEntry[]): readonly string[] => [
  ...new Set(own.flatMap(({ fields }) => kind.ownedSlots(fields))),
];

/** An apply also gives Gatehouse ownership of other required fields, such as the names of webhooks. */
function ownsTooMuch(kind: TargetKind, own: readonly OwnEntry[], owned: readonly string[]): boolean {
  if (own.length === 0) return false;
  const intended = ownership(kind, owned);
  return !(own.length === 1 && intended !== undefined && isDeepStrictEqual(own[0]?.fields, intended));
}

/** For the version of the object that was read. Changes only managedFields. Removes the last entries first, because each removal shifts the entries after it. */
export function handBackOperations(
  kind: TargetKind,
  { own }: Pick<InjectionTarget, 'own'>,
  keep: readonly string[],
): readonly JsonPatchOperation[] {
  const intended = ownership(kind, keep);
  return own
    .map(({ index }, position): JsonPatchOperation => {
      const path = `/metadata/managedFields/${index}`;
      return intended !== undefined && position === 0
        ? { op: 'replace', path: `${path}/fieldsV1`, value: intended }
        : { op: 'remove', path };
    })
    .toReversed();
}
