import type { KubeObject } from '../json/kube-object.ts';
import type { Violation } from '../api/restore-window.ts';

/** How a report names an object. */
export function subjectOf({ apiVersion = '', kind = '', metadata = {} }: KubeObject): Violation['object'] {
  const { name = '', namespace, uid } = metadata;
  return {
    apiVersion,
    kind,
    name,
    ...(namespace === undefined ? {} : { namespace }),
    ...(uid === undefined ? {} : { uid }),
  };
}
