/** Decides requests for Gatehouse's own kinds: restorers write none of them, and only permitted users open windows. */
import { ALLOWED, type CauseType, type Decision } from '../../admission/review/decision.ts';
import { isJsonObject } from '../../json/json.ts';
import { verifiedDiff } from '../../json/json-diff.ts';
import type { AdmissionRequest, UserInfo } from '../../admission/review/request.ts';
import type { Owners } from '../../admission/policy/world.ts';
import { GROUP } from '../../api/group.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import {
  completeWindow,
  objectionsTo,
  type Objection,
  type OwnKindRequest,
} from '../../restore/window-admission.ts';
import { isClusterWide } from '../../restore/opener.ts';
import { windowState } from '../../restore/window.ts';
import type { AccessReviews } from '../access-reviews.ts';
import type { Watched } from '../watch.ts';
import { schemaFlaws } from './own-kind-schemas.ts';

export type OwnKinds = ReturnType<typeof createOwnKinds>;

const RETRY_SECONDS = 1;

export function createOwnKinds(
  mayUser: AccessReviews,
  windows: Pick<Watched<RestoreWindow>, 'store'>,
  detectors: Pick<Watched<RestoreDetector>, 'store'>,
  owners: Pick<Owners, 'isOurs'>,
  now: () => Date,
) {
  const restorers = () => {
    const open = windows.store
      .list()
      .filter((window) => isClusterWide(window) && windowState(window, now()).kind === 'open');
    return [...detectors.store.list(), ...open].flatMap(({ spec }) => spec.principals);
  };
  const mayOpen = async (
    user: UserInfo,
    name: string | undefined,
    namespaces: readonly string[],
    signal: AbortSignal,
  ): Promise<boolean> => {
    const question = { verb: 'open', group: GROUP, resource: 'restorewindows', name };
    const ask = (namespace?: string) => mayUser(user, { ...question, namespace }, signal);
    if (namespaces.length === 0) return await ask();
    return (await Promise.all(namespaces.map((namespace) => ask(namespace)))).every(Boolean);
  };
  return {
    mutate: async (request: AdmissionRequest, signal: AbortSignal): Promise<Decision> => {
      const { object, operation, userInfo, name } = request;
      try {
        const mayOpenAll =
          operation === 'CREATE' &&
          !owners.isOurs(userInfo.username) &&
          (await mayOpen(userInfo, name, [], signal));
        const completed = completeWindow(toOwnRequest(request), now(), mayOpenAll);
        if (object === undefined || !isJsonObject(completed) || completed === object) return ALLOWED;
        return { ...ALLOWED, patch: verifiedDiff(object, completed) };
      } catch (cause) {
        return undecided(cause);
      }
    },
    validate: async (request: AdmissionRequest, signal: AbortSignal): Promise<Decision> => {
      try {
        // The API server validates before it asks. A client that imitates it does not.
        const flaws = owners.isOurs(request.userInfo.username) ? [] : schemaFlaws(request);
        if (flaws.length > 0) return refusal(flaws);
        const objections = await objectionsTo(toOwnRequest(request), {
          restorers: restorers(),
          isOurs: ({ username }) => owners.isOurs(username),
          mayOpen: (name, namespaces) => mayOpen(request.userInfo, name, namespaces, signal),
          now: now(),
        });
        return objections.length === 0 ? ALLOWED : refusal(objections);
      } catch (cause) {
        return undecided(cause);
      }
    },
  };
}

const undecided = (cause: unknown): Decision => ({
  kind: 'retry',
  message: 'could not check who may open RestoreWindows: try again',
  afterSeconds: RETRY_SECONDS,
  cause,
});

const toOwnRequest = (request: AdmissionRequest): OwnKindRequest => ({
  ...request,
  resource: request.resource.resource,
  user: request.userInfo,
});

function refusal(objections: readonly (Objection & { readonly reason?: CauseType })[]): Decision {
  return {
    kind: 'deny',
    code: 403,
    reason: 'Forbidden',
    message: objections
      .map(({ field, message }) => (field === '' ? message : `${field}: ${message}`))
      .join('; '),
    causes: objections.map((objection) => ({ reason: 'FieldValueForbidden', ...objection })),
    warnings: [],
    auditAnnotations: {},
  };
}
