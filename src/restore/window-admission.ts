/** Who may open a RestoreWindow, and which changes to it are allowed. No window defers these checks. */
import { isDeepStrictEqual } from 'node:util';
import { EXCLUDE_FROM_BACKUP_LABEL } from '../api/group.ts';
import { ownValue } from '../json/json.ts';
import type { QuiesceRule } from '../api/quiesce.ts';
import { MOST_GROUPS } from '../api/restore-guard.ts';
import { groupResourceName, toTimestamp, type GroupResource, type KubeObject } from '../json/kube-object.ts';
import { isPrincipal, type Principal, type Requester } from '../api/principals.ts';
import type { RestoreDetector } from '../api/restore-detector.ts';
import type { RestoreWindow, RestoreWindowSpec } from '../api/restore-window.ts';
import { detectorProblems } from './detector.ts';
import {
  isClusterWide,
  OPENER_SCOPE,
  restorersIn,
  OPENED_BY,
  isHeld,
  MAX_WINDOW_MS,
  SWEEP_FINALIZER,
  windowProblems,
  withHold,
} from './window.ts';
import { kindOf, placesOfRule } from './quiesce/plan.ts';
import { isReservedName } from './detected-window.ts';

export interface OwnKindRequest {
  readonly operation: 'CREATE' | 'UPDATE' | 'DELETE' | 'CONNECT';
  readonly resource: string;
  readonly subResource: string;
  readonly user: Requester;
  readonly object: KubeObject | undefined;
  readonly oldObject: KubeObject | undefined;
}

export interface OwnKindContext {
  readonly restorers: readonly Principal[];
  readonly isOurs: (user: Requester) => boolean;
  /** In each of these namespaces; without namespaces, for the whole cluster. @throws if the check fails */
  readonly mayOpen: (window: string | undefined, namespaces: readonly string[]) => Promise<boolean>;
  /** As `mayOpen`. */
  readonly mayPatch: (kind: GroupResource, namespaces: readonly string[]) => Promise<boolean>;
  readonly now: Date;
}

interface Objection {
  readonly field: string;
  readonly message: string;
}

/** @throws if the permission check fails */
export async function objectionsTo(
  request: OwnKindRequest,
  world: OwnKindContext,
): Promise<readonly Objection[]> {
  if (world.isOurs(request.user)) return [];
  if (request.subResource !== '') return [statusObjection(request)];
  if (
    isPrincipal(world.restorers, request.user) &&
    !onlyEndsWindow(request) &&
    !(await isAdministrator(request.user, world))
  )
    return [restorerObjection(request)];
  if (request.operation === 'DELETE') return [];
  switch (request.resource) {
    case 'restorewindows':
      return await windowObjections(request, world);
    case 'restoredetectors':
      return await detectorObjections(request, world);
    default:
      return [];
  }
}

/** Even if a detector lists the user as a restorer. Backup tools have all permissions too, but are service accounts. */
const isAdministrator = async ({ username }: Requester, { mayOpen }: OwnKindContext): Promise<boolean> =>
  !username.startsWith('system:serviceaccount:') && (await mayOpen(undefined, []));

/** Windows, detectors and policies must not come from a backup. */
function restorerObjection({ resource }: OwnKindRequest): Objection {
  return {
    field: '',
    message:
      `a restorer may not write ${resource}.gatehouse.dev: restores leave them out by design. ` +
      `Exclude them from the backup: label them ${EXCLUDE_FROM_BACKUP_LABEL}=true`,
  };
}

/** No permission makes an exception: a restorer may have any permission and any name. */
function statusObjection({ resource, subResource }: OwnKindRequest): Objection {
  const advice =
    resource === 'restorewindows' ? 'to end a window, set spec.close to true' : 'change the spec';
  return { field: '', message: `only Gatehouse writes ${resource}/${subResource}: ${advice}` };
}

async function windowObjections(
  request: OwnKindRequest,
  world: OwnKindContext,
): Promise<readonly Objection[]> {
  const window = request.object as RestoreWindow | undefined; // the API server has validated it against its schema
  if (window === undefined) return [];
  const before = request.oldObject as RestoreWindow | undefined; // as above
  if (request.operation === 'UPDATE' && before !== undefined) {
    const known = windowProblems(before);
    const added = windowProblems(window).filter((problem) => !known.includes(problem));
    const changes = [...changesOf(before.spec, window.spec), ...added.map(toObjection)];
    if (changes.length > 0) return changes;
    if (isHeld(before) && !isHeld(window) && !(await isAdministrator(request.user, world))) return [HELD];
    const approves = window.spec.sweep?.approved === true && before.spec.sweep?.approved !== true;
    return approves ? await permissionObjections(window, world) : [];
  }
  const problems = [...windowProblems(window).map(toObjection), ...timeProblems(window.spec, world.now)];
  if (problems.length > 0) return problems;
  const { type = 'Manual' } = window.spec.source ?? {};
  if (type !== 'Manual')
    return [{ field: 'spec.source.type', message: `only Gatehouse itself opens windows of type ${type}` }];
  const { name = '' } = window.metadata;
  if (isReservedName(name))
    return [
      {
        field: 'metadata.name',
        message: `${name} is reserved for windows that Gatehouse itself opens: choose a name that neither ends with a hyphen and 12 hexadecimal digits nor begins with rollback- or startup- and a digit`,
      },
    ];
  const objections = await permissionObjections(window, world, principalObjections);
  if (objections.length > 0) return objections;
  const places = (rule: QuiesceRule) => placesOfRule({ rule, window }) ?? [];
  return await quiesceObjections(window.spec.quiesce, places, world);
}

/** Gatehouse pauses for the user, who must be allowed to do the same. */
async function quiesceObjections(
  rules: readonly QuiesceRule[] = [],
  placesOf: (rule: QuiesceRule) => readonly string[],
  { mayPatch }: OwnKindContext,
): Promise<readonly Objection[]> {
  const answers = await Promise.all(rules.map((rule) => mayPatch(kindOf(rule), placesOf(rule))));
  return rules.flatMap((rule, index) => {
    if (answers[index] === true) return [];
    const message = `you lack permission to patch ${groupResourceName(kindOf(rule))} there, so Gatehouse cannot pause them for you: ask for this permission`;
    return [{ field: `spec.quiesce[${index}]`, message }];
  });
}

const HELD: Objection = {
  field: 'metadata.finalizers',
  message: `${SWEEP_FINALIZER} keeps the window until it is swept, and Gatehouse removes it then: delete the window and wait`,
};

function principalObjections(window: RestoreWindow): readonly Objection[] {
  if (isClusterWide(window))
    return [{ field: 'metadata.annotations', message: `only Gatehouse sets ${OPENER_SCOPE}: try again` }];
  if (window.spec.guard !== undefined) return [GUARD_OF_CLUSTER];
  const allowed = restorersIn(window);
  const message =
    `you may open RestoreWindows only in ${namespacesOf(window).join(', ')}: name yourself, or service accounts of ` +
    'these namespaces, or ask for the verb "open" on restorewindows.gatehouse.dev for the whole cluster';
  return window.spec.principals.flatMap((principal, index) =>
    allowed.includes(principal) ? [] : [{ field: `spec.principals[${index}]`, message }],
  );
}

/** Each guard lengthens expressions that all restorers share. */
const GUARD_OF_CLUSTER: Objection = {
  field: 'spec.guard',
  message:
    'only users who may open RestoreWindows for the whole cluster can set it: remove it, or ask for the verb "open" on ' +
    'restorewindows.gatehouse.dev for the whole cluster',
};

const namespacesOf = ({ spec }: RestoreWindow): readonly string[] => [
  ...new Set(spec.match?.namespaces?.include),
];

/** Each namespace takes one SubjectAccessReview. */
const MOST_NAMESPACES = 64;

async function permissionObjections(
  window: RestoreWindow,
  { mayOpen }: OwnKindContext,
  inNamespaces: (window: RestoreWindow) => readonly Objection[] = () => [],
): Promise<readonly Objection[]> {
  const { name } = window.metadata;
  const namespaces = namespacesOf(window);
  if (await mayOpen(name, [])) return [];
  if (namespaces.length > MOST_NAMESPACES) {
    const message =
      `contains ${namespaces.length} namespaces, but without permission to open RestoreWindows for the whole cluster, ` +
      `a window can have at most ${MOST_NAMESPACES}: open several windows`;
    return [{ field: 'spec.match.namespaces.include', message }];
  }
  if (namespaces.length > 0 && (await mayOpen(name, namespaces))) return inNamespaces(window);
  const where = namespaces.length === 0 ? 'for the whole cluster' : `in ${namespaces.join(', ')}`;
  const message =
    `you lack permission to open RestoreWindows ${where}: ask for the verb "open" on restorewindows.gatehouse.dev` +
    (namespaces.length === 0 ? ', or name the namespaces in spec.match.namespaces.include' : '');
  return [{ field: '', message }];
}

async function detectorObjections(
  { object, oldObject }: OwnKindRequest,
  world: OwnKindContext,
): Promise<readonly Objection[]> {
  const detector = object as RestoreDetector | undefined; // the API server has validated it against its schema
  if (detector === undefined) return [];
  const problems = detectorProblems(detector).map(toObjection);
  if (problems.length > 0) return problems;
  const before = oldObject as RestoreDetector | undefined; // as above
  if (isDeepStrictEqual(before?.spec, detector.spec)) return [];
  if (await world.mayOpen(undefined, [])) {
    const { quiesce } = detector.spec;
    if (isDeepStrictEqual(before?.spec.quiesce, quiesce)) return [];
    return await quiesceObjections(quiesce, ({ namespaces = [] }) => namespaces, world);
  }
  const message =
    'a RestoreDetector opens windows for the whole cluster: ask for the verb "open" on restorewindows.gatehouse.dev';
  return [{ field: '', message }];
}

function toObjection(problem: string): Objection {
  const at = problem.indexOf(': ');
  return at < 0
    ? { field: '', message: problem }
    : { field: problem.slice(0, at), message: problem.slice(at + 2) };
}

function timeProblems({ expiresAt, close }: RestoreWindowSpec, now: Date): readonly Objection[] {
  const left = new Date(expiresAt).getTime() - now.getTime();
  const field = 'spec.expiresAt';
  if (left <= 0 && close !== true)
    return [{ field, message: `${expiresAt} is in the past: choose a later time` }];
  // Allow one minute of clock skew.
  return left > MAX_WINDOW_MS + 60_000
    ? [
        {
          field,
          message: 'it is more than 24 hours ahead, the longest duration of a window: choose an earlier time',
        },
      ]
    : [];
}

/** A user may close a window, end it earlier, and approve its owner links. Everything else is immutable. */
function changesOf(before: RestoreWindowSpec, after: RestoreWindowSpec): readonly Objection[] {
  const fields = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...fields].flatMap((key): readonly Objection[] => {
    const [was, is] = [ownValue(before, key), ownValue(after, key)];
    if (isDeepStrictEqual(was, is)) return [];
    const objection = (message: string) => [{ field: `spec.${key}`, message }];
    switch (key) {
      case 'close':
        return after.close === true ? [] : objection('a closed window stays closed: create a new one');
      case 'expiresAt':
        return new Date(after.expiresAt) <= new Date(before.expiresAt)
          ? []
          : objection('it can only be moved to an earlier time: create a new window');
      case 'sweep':
        return onlyApproves(before.sweep, after.sweep)
          ? []
          : objection('only sweep.approved can be changed, from false to true');
      default:
        return objection('it cannot be changed once the window is there: create a new one');
    }
  });
}

function onlyApproves(before: RestoreWindowSpec['sweep'], after: RestoreWindowSpec['sweep']): boolean {
  return after?.approved === true && isDeepStrictEqual({ ...before, approved: true }, after);
}

/** The end would end the guard. An update that changes nothing comes from a restore of the window, whose labels would close it. */
function onlyEndsWindow({ operation, resource, user, object, oldObject }: OwnKindRequest): boolean {
  if (operation !== 'UPDATE' || resource !== 'restorewindows') return false;
  const [before, after] = [oldObject, object] as readonly (RestoreWindow | undefined)[]; // validated, as above
  if (before === undefined || after === undefined || !isPrincipal(before.spec.principals, user)) return false;
  if (before.spec.guard !== undefined || isDeepStrictEqual(before.spec, after.spec)) return false;
  const { close, expiresAt } = after.spec;
  const ended = { ...before.spec, expiresAt, ...(close === undefined ? {} : { close }) };
  return changesOf(before.spec, after.spec).length === 0 && isDeepStrictEqual(ended, after.spec);
}

/** Sets the end, the finalizer, the label against backups, what the opener may open, and whose permissions the guard uses. */
export function completeWindow(
  { operation, user, object, oldObject }: OwnKindRequest,
  now: Date,
  mayOpenAll: boolean,
): KubeObject | undefined {
  if (object === undefined) return undefined;
  const isNew = operation === 'CREATE';
  const opener = { [OPENED_BY]: user.username, ...(mayOpenAll ? { [OPENER_SCOPE]: 'Cluster' } : {}) };
  const record: Readonly<Record<string, string>> = isNew ? opener : (oldObject?.metadata?.annotations ?? {});
  const completed = isNew ? held(withRights(withEnd(object, now), user)) : object;
  const { labels, annotations } = completed.metadata ?? {};
  const isRecorded = RECORDS.every((key) => annotations?.[key] === record[key]);
  if (labels?.[EXCLUDE_FROM_BACKUP_LABEL] === 'true' && isRecorded) return completed;
  const others = Object.entries(annotations ?? {}).filter(([key]) => !RECORDS.includes(key));
  const kept = Object.entries(record).filter(([key]) => RECORDS.includes(key));
  return {
    ...completed,
    metadata: {
      ...completed.metadata,
      labels: { ...labels, [EXCLUDE_FROM_BACKUP_LABEL]: 'true' },
      annotations: Object.fromEntries([...others, ...kept]),
    },
  };
}

const RECORDS = [OPENED_BY, OPENER_SCOPE];

function held(object: KubeObject): KubeObject {
  const window = { ...object, metadata: object.metadata ?? {} } as RestoreWindow; // only its metadata is used
  return isHeld(window) ? object : withHold(window, true);
}

function withRights(object: KubeObject, { username, groups }: Requester): KubeObject {
  const { spec } = object as { readonly spec?: Partial<RestoreWindowSpec> | null }; // not yet validated
  const guard = spec?.guard;
  if (typeof guard !== 'object' || (guard as unknown) === null || guard.rightsOf !== undefined) return object;
  const rightsOf = { user: username, groups: groups.slice(0, MOST_GROUPS) };
  const window = { ...object, spec: { ...spec, guard: { ...guard, rightsOf } } };
  return window;
}

const DEFAULT_WINDOW_MS = 2 * 3_600_000;

function withEnd(object: KubeObject, now: Date): KubeObject {
  const { spec } = object as { readonly spec?: Partial<RestoreWindowSpec> | null }; // not yet validated
  if (typeof spec !== 'object' || spec === null) return object;
  const { expiresAt } = spec;
  const latest = now.getTime() + MAX_WINDOW_MS;
  const end =
    expiresAt === undefined ? now.getTime() + DEFAULT_WINDOW_MS : Math.min(latest, Date.parse(expiresAt));
  if (Number.isNaN(end) || (expiresAt !== undefined && end === Date.parse(expiresAt))) return object;
  const window = { ...object, spec: { ...spec, expiresAt: toTimestamp(new Date(end)) } };
  return window;
}
