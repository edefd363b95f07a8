/** Which restorers a guard limits, and whether a role or binding grants more than the guard allows. */
import { GUARD_ADVICE, RBAC_GROUP, type RestoreGuard } from '../api/restore-guard.ts';
import type { Principal } from '../api/principals.ts';
import type { RestoreDetector } from '../api/restore-detector.ts';
import type { RestoreWindow } from '../api/restore-window.ts';
import { listIn, textIn, type JsonObject } from '../json/json.ts';
import { groupResourceName, objectKey, type GroupResource } from '../json/kube-object.ts';
import { shorten } from '../json/printable.ts';
import { isEnabled } from './detector.ts';
import { isClusterWide, windowProblems, windowState } from './window.ts';

export interface Guard extends RestoreGuard {
  /** For messages, e.g. `RestoreDetector velero`. */
  readonly by: string;
  readonly principals: readonly Principal[];
}

/** Those of detectors always apply, those of windows while the window is open. */
export function guardsOf(
  detectors: readonly RestoreDetector[],
  windows: readonly RestoreWindow[],
  now: Date,
): readonly Guard[] {
  const isOpen = (window: RestoreWindow) =>
    isClusterWide(window) && windowState(window, now).kind === 'open' && windowProblems(window).length === 0;
  return [
    ...detectors.filter(isEnabled).map((one) => ({ kind: 'RestoreDetector', ...one })),
    ...windows.filter(isOpen).map((one) => ({ kind: 'RestoreWindow', ...one })),
  ].flatMap(({ kind, metadata, spec: { guard, principals } }) =>
    guard === undefined ? [] : [{ ...guard, principals, by: `${kind} ${metadata.name ?? ''}` }],
  );
}

interface Permission extends GroupResource {
  readonly verb: string;
  readonly subresource?: string | undefined;
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
}
type Question = Permission | { readonly verb: string; readonly path: string };

/** What the user in `rightsOf` may do, and which roles exist. */
export interface Rights {
  readonly may: (question: Question) => Promise<boolean>;
  readonly readRole: (
    resource: 'roles' | 'clusterroles',
    ref: { readonly namespace: string | undefined; readonly name: string },
  ) => Promise<JsonObject | undefined>;
}

export interface PermissionWrite {
  readonly resource: GroupResource;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly object: object;
  readonly oldObject: object | undefined;
}

/** Each takes a SubjectAccessReview, and the API server waits 10 s. The ClusterRole `admin` grants about half as many. */
const MOST_QUESTIONS = 1_024;
const AT_ONCE = 32;

/** A permission that the user lacks, like the API server's check for escalation. */
async function excessOf(write: PermissionWrite, rights: Rights): Promise<string | undefined> {
  const { namespace, name, object, oldObject } = write;
  const { group, resource } = write.resource;
  if (resource.endsWith('bindings')) return await excessOfBinding(object, namespace, rights);
  const existing = oldObject === undefined ? undefined : name;
  if (await rights.may({ group, resource, verb: 'escalate', namespace, name: existing })) return undefined;
  // A role that collects other roles may acquire any rule.
  const collects = [object, oldObject].some(
    (one) => listIn(one, 'aggregationRule', 'clusterRoleSelectors').length > 0,
  );
  return await firstLacking([...listIn(object, 'rules'), ...(collects ? EVERYTHING : [])], namespace, rights);
}

async function excessOfBinding(object: object, namespace: string | undefined, rights: Rights) {
  const resource = textIn(object, 'roleRef', 'kind') === 'Role' ? 'roles' : 'clusterroles';
  const kind = { group: RBAC_GROUP, resource };
  const name = textIn(object, 'roleRef', 'name');
  if (await rights.may({ ...kind, verb: 'bind', namespace, name })) return undefined;
  const ref = { namespace: resource === 'roles' ? namespace : undefined, name };
  const role = await rights.readRole(resource, ref);
  return role === undefined
    ? `bind ${groupResourceName(kind)} ${objectKey(ref)}, which does not exist`
    : await firstLacking(listIn(role, 'rules'), namespace, rights);
}

const EVERYTHING = [
  { verbs: ['*'], apiGroups: ['*'], resources: ['*'] },
  { verbs: ['*'], nonResourceURLs: ['*'] },
];

async function firstLacking(
  rules: readonly unknown[],
  namespace: string | undefined,
  { may }: Rights,
): Promise<string | undefined> {
  const questions: Question[] = [];
  // A role of 1 MB can contain billions of permissions: stop before it fills the memory.
  for (const question of questionsOf(rules, namespace)) {
    if (questions.push(question) > MOST_QUESTIONS)
      return `grant more than ${MOST_QUESTIONS} permissions, the most that Gatehouse checks`;
  }
  for (let at = 0; at < questions.length; at += AT_ONCE) {
    const some = questions.slice(at, at + AT_ONCE);
    const answers = await Promise.all(some.map(may));
    const lacking = some.find((_, index) => answers[index] !== true);
    if (lacking !== undefined) return describe(lacking);
  }
  return undefined;
}

function* questionsOf(rules: readonly unknown[], namespace: string | undefined): Generator<Question> {
  for (const rule of rules) {
    const texts = (key: string) => listIn(rule, key).filter((one) => typeof one === 'string');
    const names = texts('resourceNames');
    for (const verb of texts('verbs')) {
      for (const path of texts('nonResourceURLs')) yield { verb, path };
      for (const group of texts('apiGroups'))
        for (const full of texts('resources')) {
          const [resource = '', ...rest] = full.split('/');
          const kind = { verb, group, resource, subresource: rest.join('/'), namespace };
          for (const name of names.length === 0 ? [undefined] : names) yield { ...kind, name };
        }
    }
  }
}

function describe(question: Question): string {
  if ('path' in question) return `${question.verb} ${question.path}`;
  const { verb, group, resource, subresource, namespace, name } = question;
  const kind = groupResourceName({ group, resource: [resource, subresource].filter(Boolean).join('/') });
  return [verb, kind, name, namespace && `in ${namespace}`].filter(Boolean).join(' ');
}

/** In characters. A restore can bring names and verbs of a megabyte, with control characters. */
const LONGEST = 512;

/** For a guard that refuses permissions. @param rights undefined if nobody's permissions count */
export async function guardProblem(
  write: PermissionWrite,
  guard: Guard,
  rights: Rights | undefined,
): Promise<string | undefined> {
  const { resource, namespace, name } = write;
  const key = objectKey({ namespace, name: name ?? '' });
  const subject = shorten(`${groupResourceName(resource)} ${key}`, LONGEST);
  const [user, lacking] = [guard.rightsOf?.user, rights && (await excessOf(write, rights))];
  if (rights !== undefined && lacking === undefined) return undefined;
  const why =
    lacking === undefined || user === undefined
      ? `${guard.by} refuses new and changed permissions in restores`
      : `${guard.by} limits restores to the permissions of ${user}, who lacks permission to ${shorten(lacking, LONGEST)}`;
  return `${subject}: ${why}: ${GUARD_ADVICE}`;
}
