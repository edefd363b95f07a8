/** Decides which changes of permissions a restore may bring. */
import { isDeepStrictEqual } from 'node:util';

import { ALLOWED, denied, FORBIDDEN, type Decision } from '../../admission/review/decision.ts';
import type { AdmissionRequest } from '../../admission/review/request.ts';
import { isPrincipal } from '../../api/principals.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { isJsonObject } from '../../json/json.ts';
import type { AccessQuestion, PathQuestion } from '../../kube/access.ts';
import type { KubeClient } from '../../kube/client.ts';
import { clusterRoles, roles } from '../../kube/well-known.ts';
import { type Guard, guardProblem, guardsOf, type Rights } from '../../restore/guard.ts';
import type { AccessReviews } from '../access-reviews.ts';
import { RESTORE_DETECTORS, RESTORE_WINDOWS } from '../resources.ts';
import type { RestoreKinds } from '../restores/restore-kinds.ts';

interface Sources {
  readonly client: Pick<KubeClient, 'get' | 'listAll'>;
  readonly mayUser: AccessReviews<AccessQuestion | PathQuestion>;
  readonly windows: Pick<RestoreKinds['windows'], 'store'>;
  readonly detectors: Pick<RestoreKinds['detectors'], 'store'>;
}

export type RestoreGuards = ReturnType<typeof createRestoreGuards>;

export function createRestoreGuards({ client, mayUser, windows, detectors }: Sources, now: () => Date) {
  const readGuards = async (signal: AbortSignal) => {
    const [ofDetectors, ofWindows] = await Promise.all([
      client.listAll<RestoreDetector>(RESTORE_DETECTORS, { signal }),
      client.listAll<RestoreWindow>(RESTORE_WINDOWS, { signal }),
    ]);
    return guardsOf(ofDetectors.items, ofWindows.items, now());
  };
  const decide = async (request: AdmissionRequest, signal: AbortSignal): Promise<Decision> => {
    const { object = {}, userInfo } = request;
    const limiting = (guards: readonly Guard[]) =>
      guards.filter(
        ({ refuse, principals }) => refuse.includes('Permissions') && isPrincipal(principals, userInfo),
      );
    const judge = async (guards: readonly Guard[]) => {
      const problems = await Promise.all(
        guards.map((guard) =>
          guardProblem({ ...request, object }, guard, rightsOf(guard, { client, mayUser }, signal)),
        ),
      );
      return problems.find((one) => one !== undefined);
    };
    const known = limiting(guardsOf(detectors.store.list(), windows.store.list(), now()));
    const found = await judge(known);
    if (known.length > 0 && found === undefined) return ALLOWED;
    // This replica may not have seen the guard yet that the entry is for, or its end.
    const live = limiting(await readGuards(signal));
    const problem = isDeepStrictEqual(known, live) ? found : await judge(live);
    return problem === undefined ? ALLOWED : denied(FORBIDDEN, problem);
  };
  return (request: AdmissionRequest, signal: AbortSignal): Promise<Decision> =>
    decide(request, signal).catch((cause: unknown) => ({
      kind: 'retry',
      message: 'could not check which permissions a restore may bring: try again',
      cause,
    }));
}

/** Undefined if the guard names no user. */
export function rightsOf(
  { rightsOf: subject }: Guard,
  { client, mayUser }: { readonly client: Pick<KubeClient, 'get'>; readonly mayUser: Sources['mayUser'] },
  signal: AbortSignal,
): Rights | undefined {
  if (subject === undefined) return undefined;
  const { user: username, groups = [] } = subject;
  return {
    may: (question) => mayUser({ username, uid: '', groups, extra: {} }, question, signal),
    readRole: async (resource, ref) => {
      const kind = resource === 'roles' ? roles : clusterRoles;
      const role: unknown = await client.get(kind, ref, { signal });
      return isJsonObject(role) ? role : undefined;
    },
  };
}
