import type { KubernetesObject } from '../api/meta.ts';
import type { Violation } from '../api/restore-window.ts';

/** How a report names an object. */
export function subjectOf({
  apiVersion = '',
  kind = '',
  metadata = {},
}: KubernetesObject): Violation['object'] {
  const { name = '', namespace, uid } = metadata;
  return {
    apiVersion,
    kind,
    name,
    ...(namespace === undefined ? {} : { namespace }),
    ...(uid === undefined ? {} : { uid }),
  };
}
