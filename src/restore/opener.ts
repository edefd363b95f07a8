/** What a RestoreWindow may defer depends on what its opener may open. The mutating webhook records that. */
import { ACCOUNTS_OF, type Principal } from '../api/principals.ts';
import type { RestoreWindow } from '../api/restore-window.ts';

/** The name of the user who opened the window. */
export const OPENED_BY = 'gatehouse.dev/opened-by';
/** `Cluster`: the opener may open windows for the whole cluster. Absent: only in namespaces that the window names. */
export const OPENER_SCOPE = 'gatehouse.dev/opener-scope';

/**
 * Whether the opener may open windows for the whole cluster. Only Gatehouse opens windows of type Detector. A window
 * that was stored without the webhook has no record, and counts as one for its namespaces.
 */
export const isClusterWide = ({ metadata, spec }: RestoreWindow): boolean =>
  spec.source?.type === 'Detector' || metadata.annotations?.[OPENER_SCOPE] === 'Cluster';

/** The principals that the opener may name. In namespaces: the opener, and the service accounts there. */
export function restorersIn(window: RestoreWindow): readonly Principal[] {
  const { metadata, spec } = window;
  if (isClusterWide(window)) return spec.principals;
  const namespaces = spec.match?.namespaces?.include ?? [];
  const opener = metadata.annotations?.[OPENED_BY];
  return spec.principals.filter(({ user, group }) =>
    namespaces.some(
      (namespace) =>
        group === `${ACCOUNTS_OF}${namespace}` ||
        (user !== undefined && (user === opener || user.startsWith(`system:serviceaccount:${namespace}:`))),
    ),
  );
}

/** The window as an administrator opens it. */
export const openedForCluster = (window: RestoreWindow): RestoreWindow => ({
  ...window,
  metadata: {
    ...window.metadata,
    annotations: { ...window.metadata.annotations, [OPENER_SCOPE]: 'Cluster' },
  },
});
