import type { ObjectMeta } from '../api/meta.ts';
import { pick } from '../json/pick.ts';
import { isOpenshiftAnnotation } from './secret-openshift.ts';
import type { Secret } from './secret.ts';
import { sketchServingCert, type ServingCertSketch } from './serving-cert-facts.ts';

/**
 * A Secret as a store keeps it: what a decision to leave it alone needs. No key, no data, and of the annotations only those that
 * Gatehouse writes. A write is never made from this: it would drop what others put there.
 */
export interface StoredSecret extends Secret {
  /** Undefined if there is neither certificate nor key. */
  readonly sketch?: ServingCertSketch | undefined;
}

export function toStoredSecret(secret: Secret): StoredSecret {
  const { metadata } = secret;
  return {
    ...(metadata === undefined ? {} : { metadata: slim(metadata) }),
    ...pick(secret, 'type', 'immutable'),
    sketch: sketchServingCert(secret.data),
  };
}

function slim(metadata: ObjectMeta): ObjectMeta {
  const { annotations } = metadata;
  return {
    ...pick(metadata, 'name', 'namespace', 'uid', 'resourceVersion', 'labels', 'ownerReferences'),
    ...(annotations === undefined ? {} : { annotations: ownAnnotations(annotations) }),
  };
}

/** Annotations of others can be as large as the object itself: kubectl keeps a copy of it in one. */
export const ownAnnotations = (
  annotations: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(annotations).filter(
      ([name]) => name.startsWith('gatehouse.dev/') || isOpenshiftAnnotation(name),
    ),
  );
