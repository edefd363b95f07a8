/** Which objects that ought to trust a root do not yet. A rotation waits for them. */
import { objectKey } from '../../json/kube-object.ts';
import { textIn, wantedSlots } from '../../pki/injection/plan.ts';
import type { InjectionTarget, Slot, TargetKind } from '../../pki/injection/target.ts';
import { fingerprintsOf } from '../../pki/x509/pem.ts';

/** The objects of one kind. */
export interface TargetView {
  readonly kind: TargetKind;
  readonly targets: () => readonly InjectionTarget[];
  /** Those that Gatehouse writes as a whole, which ask for nothing and have to hold the bundle all the same. */
  readonly isOwn: (key: string) => boolean;
}

/** @param root the SHA-256 fingerprint of its certificate */
export function targetsWithoutRoot(views: readonly TargetView[], root: string): readonly string[] {
  return views.flatMap(({ kind, targets, isOwn }) =>
    targets().flatMap((target) => {
      const key = objectKey(target.metadata ?? {});
      const slots = isOwn(key) ? target.slots.filter(isServed) : slotsOfAuthority(target);
      const trusts = (slot: Slot) => fingerprintsOf(textIn(kind, slot))?.split(',').includes(root) === true;
      return slots.every(trusts) ? [] : [`${kind.kind} ${key}`];
    }),
  );
}

/** Our own entries lead to a URL while a developer's machine serves them, and have its root then. */
const isServed = ({ reach }: Slot): boolean => reach === 'service';

/** What is being deleted, or filled from elsewhere, tells nothing about our roots. */
function slotsOfAuthority(target: InjectionTarget): readonly Slot[] {
  const { request, metadata } = target;
  if (metadata?.deletionTimestamp !== undefined) return [];
  return request.kind === 'wanted' && request.source.kind === 'authority' ? wantedSlots(target) : [];
}
