import type { JsonPatchOperation } from '../../json/json-patch.ts';
import type { BundleState } from './source.ts';
import type { InjectionTarget, Slot, TargetKind } from './target.ts';
import { INJECT_CABUNDLE } from '../annotations.ts';
import { MAX_BUNDLE_BYTES } from '../authority/authority.ts';
import { isWrittenAs, readableCertificates, type CertificatePem } from '../x509/pem.ts';
export type InjectionPlan =
  | { readonly kind: 'none' }
  | { readonly kind: 'wait' }
  /** The injector writes nothing until a user fixes the `problem`. */
  | { readonly kind: 'invalid'; readonly problem: string }
  /**
   * Give up the ownership of all fields, and keep their values. An owner's value conflicts with a placeholder in a manifest
   * that others apply, and remains when they remove its webhook or conversion (kubernetes #108081, cert-manager #4838).
   */
  | { readonly kind: 'hand-back' }
  | { readonly kind: 'current'; readonly problem: string | undefined; readonly until: Date | undefined }
  | {
      readonly kind: 'inject';
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
  // Before a write: an apply removes the fields that it owns and does not repeat.
  if (own.length > 0) return { kind: 'hand-back' };
  if (request.kind === 'invalid') return { kind: 'invalid', problem: request.message };

  const wanted = wantedSlots(target);
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
          stale: stale.map(({ name }) => name),
          bundle: bundle.pem,
          routine: stale.every((slot) => sharesCertificate(textIn(kind, slot), bundle.pem)),
          problem,
        };
      return { kind: 'current', problem, until: bundle.until };
    }
  }
}

/** The slots that the request wants filled. */
export function wantedSlots({ request, slots }: InjectionTarget): readonly Slot[] {
  if (request.kind !== 'wanted') return [];
  const { webhooks } = request;
  if (webhooks === 'all') return slots;
  return slots.filter(({ name, reach }) =>
    webhooks === 'services' ? reach === 'service' : webhooks.includes(name),
  );
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

function problemOf({ metadata, request, slots }: InjectionTarget): string | undefined {
  if (request.kind !== 'wanted') return undefined;
  // During a session of --dev-url, Gatehouse's own configuration leads to a laptop.
  const lacksServices = slots.length > 0 && slots.every(({ reach }) => reach === 'url');
  if (typeof request.webhooks === 'string')
    return request.webhooks === 'services' && lacksServices && metadata?.name !== 'gatehouse'
      ? `all webhooks have a url: name those that need the bundle, for example ${INJECT_CABUNDLE}: ${slots[0]?.name ?? ''}`
      : request.problem;
  const missing = request.webhooks.filter((name) => !slots.some((slot) => slot.name === name));
  return missing.length === 0 ? request.problem : `there is no webhook named ${missing.join(', ')}`;
}

/** For the version of the object that was read. The last entry goes first, because each removal shifts those after it. */
export const handBackOperations = ({ own }: Pick<InjectionTarget, 'own'>): readonly JsonPatchOperation[] =>
  own.toReversed().map((index) => ({ op: 'remove', path: `/metadata/managedFields/${index}` }));
