import { insteadOf, isForbidden, isNotFound } from './api-error.ts';
import { orAborted } from '../json/abort.ts';
import type { Clock } from './clock.ts';
import { groupResourceName, type GroupResource } from '../json/kube-object.ts';
import { listIn, textIn, valueIn } from '../json/json.ts';
import { memoizeAsync, type Memoized } from '../json/memoize-async.ts';
import type { Resource } from './object.ts';
import type { Rest } from './rest.ts';
import { shorten } from '../json/printable.ts';

/** 0: the API server does not say. */
export interface ServerVersion {
  readonly major: number;
  readonly minor: number;
  readonly gitVersion: string;
}

export type Discovery = ReturnType<typeof createDiscovery>;

/** CRDs rarely change their preferred version or scope. */
const FOUND_MS = 10 * 60_000;
/** Short, because a CRD is often created right before its first use. Not zero: each unknown name costs requests. */
const ABSENT_MS = 5_000;
const VERSION_MS = 60_000;

export function createDiscovery(rest: Rest, { now }: Pick<Clock, 'now'>) {
  const lifetime = {
    now,
    ttlMs: FOUND_MS,
    ttlOf: (found: Resource | undefined) => (found === undefined ? ABSENT_MS : FOUND_MS),
  };
  const find = (wanted: GroupResource) => lookUp(rest, wanted);
  const resources = memoizeAsync(find, groupResourceName, lifetime);
  const groups = memoizeAsync((group: string) => resourcesIn(rest, group), String, { now, ttlMs: ABSENT_MS });
  const allGroups = memoizeAsync(
    async (path: string) =>
      listIn(await getIfThere(rest, path), 'groups').map((group) => textIn(group, 'name')),
    String,
    { now, ttlMs: ABSENT_MS },
  );
  const version = memoizeAsync((path: string) => readVersion(rest, path), String, { now, ttlMs: VERSION_MS });
  const kinds = memoizeAsync((wanted: WantedKind) => lookUpKind(rest, wanted), kindName, lifetime);

  /** Each caller can stop waiting; the read goes on for the others. */
  const readFrom =
    <Key, Result>(memo: Memoized<Key, Result>) =>
    async (key: Key, signal?: AbortSignal): Promise<Result> => {
      signal?.throwIfAborted();
      return orAborted(memo.read(key), signal);
    };
  return {
    /** In the preferred version. @throws when discovery fails: never assume then that a resource is absent */
    resolve: readFrom(resources),
    /** In this version if available, otherwise in the first one that has the kind. @throws like `resolve` */
    resolveKind: readFrom(kinds),
    /** In all versions, with subresources. @throws like `resolve` */
    servedIn: readFrom(groups),
    groups: (signal?: AbortSignal) => readFrom(allGroups)('/apis', signal),
    forget: (resource: GroupResource): void => {
      resources.forget((name) => name === groupResourceName(resource));
      kinds.forget((name) => name.startsWith(`${resource.group}/`));
    },
    serverVersion: (signal?: AbortSignal) => readFrom(version)('/version', signal),
  };
}

/** An API server may hide its version: it forbids the path, or leaves fields out. Then both numbers are 0. */
async function readVersion(rest: Rest, path: string): Promise<ServerVersion> {
  const reading = rest.request<unknown>({ method: 'GET', path });
  const version = await reading.catch(insteadOf(isForbidden, {}));
  const gitVersion = textIn(version, 'gitVersion');
  const named = /^v?(\d+)\.(\d+)/.exec(gitVersion)?.slice(1) ?? [];
  // Cloud providers write `30+`.
  const [major = NaN, minor = NaN] = [textIn(version, 'major'), textIn(version, 'minor')].map((part, index) =>
    Number.parseInt(/^\d/.test(part) ? part : (named[index] ?? ''), 10),
  );
  return Number.isNaN(major) || Number.isNaN(minor)
    ? { major: 0, minor: 0, gitVersion }
    : { major, minor, gitVersion };
}

type WantedKind = Pick<Resource, 'group' | 'version' | 'kind'>;

const kindName = ({ group, version, kind }: WantedKind): string => `${group}/${version}/${kind}`;

async function lookUp(rest: Rest, { group, resource }: GroupResource): Promise<Resource | undefined> {
  for (const version of await versionsOf(rest, group)) {
    const found = (await servedIn(rest, group, version)).find((one) => one.resource === resource);
    if (found !== undefined) return found;
  }
  return undefined;
}

async function resourcesIn(rest: Rest, group: string): Promise<readonly Resource[]> {
  const versions = await versionsOf(rest, group);
  const served = await Promise.all(versions.map((version) => servedIn(rest, group, version)));
  return served.flat();
}

async function lookUpKind(
  rest: Rest,
  { group, version: wanted, kind }: WantedKind,
): Promise<Resource | undefined> {
  const versions = await versionsOf(rest, group);
  const first = versions.includes(wanted) ? [wanted] : [];
  for (const version of new Set([...first, ...versions])) {
    const served = await servedIn(rest, group, version);
    const found = served.find((one) => one.kind === kind && !one.resource.includes('/'));
    if (found !== undefined) return found;
  }
  return undefined;
}

async function servedIn(rest: Rest, group: string, version: string): Promise<readonly Resource[]> {
  const path = group === '' ? '/api/v1' : `/apis/${encodeURIComponent(group)}/${encodeURIComponent(version)}`;
  return listIn(await getIfThere(rest, path), 'resources').map((entry) => {
    const [resource, kind] = [textIn(entry, 'name'), textIn(entry, 'kind')];
    const aliases = [textIn(entry, 'singularName'), ...listIn(entry, 'shortNames').map(String)].filter(
      (alias) => alias !== '',
    );
    const found = { group, version, resource, kind, namespaced: valueIn(entry, 'namespaced') === true };
    return aliases.length === 0 ? found : { ...found, aliases };
  });
}

async function versionsOf(rest: Rest, group: string): Promise<readonly string[]> {
  if (group === '') return ['v1'];
  const found = await getIfThere(rest, `/apis/${encodeURIComponent(group)}`);
  const preferred = valueIn(found, 'preferredVersion');
  const all = [preferred, ...listIn(found, 'versions')].map((one) => textIn(one, 'version'));
  return [...new Set(all)].filter((version) => version !== '');
}

const getIfThere = (rest: Rest, path: string): Promise<unknown> =>
  rest.request<unknown>({ method: 'GET', path }).catch(insteadOf(isNotFound, undefined));

export const OLDEST_MINOR = 30;
export const NEWEST_MINOR = 37;

export const UPGRADE = 'upgrade every API server of the cluster';

export function refuseOlder(version: ServerVersion): void {
  const problem = versionProblem(version);
  if (problem !== undefined) throw new Error(`${problem}: ${UPGRADE}`);
}

/** Undefined for newer releases, and for an API server that hides its version. */
export function versionProblem({ major, minor, gitVersion }: ServerVersion): string | undefined {
  if (major !== 1 || minor >= OLDEST_MINOR) return undefined;
  const name = gitVersion === '' ? `${major}.${minor}` : shorten(gitVersion, LONGEST_NAME);
  return `the API server runs Kubernetes ${name}, but Gatehouse supports 1.${OLDEST_MINOR} to 1.${NEWEST_MINOR}`;
}

const LONGEST_NAME = 64;

export const isUntested = ({ major, minor }: ServerVersion): boolean => major > 1 || minor > NEWEST_MINOR;
