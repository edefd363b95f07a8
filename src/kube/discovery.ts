import { isNotFound } from './api-error.ts';
import type { Clock } from './clock.ts';
import { groupResourceName } from '../json/kube-object.ts';
import { isRecord, type Resource } from './object.ts';
import type { Rest } from './rest.ts';

export interface ServerVersion {
  readonly major: number;
  readonly minor: number;
  /** E.g. `v1.36.2+k3s1`. */
  readonly gitVersion: string;
}

export interface Discovery {
  /**
   * How the API server serves a resource, in its preferred version; undefined when it does not.
   * @throws when the API server does not say, e.g. because an aggregated API is down: absence must be known, not assumed
   */
  readonly resolve: (
    wanted: Pick<Resource, 'group' | 'resource'>,
    signal?: AbortSignal,
  ) => Promise<Resource | undefined>;
  /**
   * How the API server serves a kind: in this version if it can, otherwise in the preferred one that has it.
   * @throws as `resolve`
   */
  readonly resolveKind: (
    wanted: Pick<Resource, 'group' | 'version' | 'kind'>,
    signal?: AbortSignal,
  ) => Promise<Resource | undefined>;
  /** What was learnt of a resource no longer holds, e.g. because a request to it met a 404 or its CRD changed. */
  readonly forget: (resource: Pick<Resource, 'group' | 'resource'>) => void;
  readonly serverVersion: (signal?: AbortSignal) => Promise<ServerVersion>;
}

/** A CRD may change its preferred version or scope at any time, but few ever do. */
const FOUND_MS = 10 * 60_000;
/** A CRD is often created a moment before its first use, and a flood of unknown names must not become a flood of requests. */
const ABSENT_MS = 5_000;

export function createDiscovery(rest: Rest, { now }: Pick<Clock, 'now'>): Discovery {
  const answers = new Map<
    string,
    { readonly until: number; readonly answer: Promise<Resource | undefined> }
  >();

  const ask = (
    name: string,
    lookUp: () => Promise<Resource | undefined>,
    signal: AbortSignal | undefined,
  ): Promise<Resource | undefined> => {
    signal?.throwIfAborted();
    const known = answers.get(name);
    if (known !== undefined && now() < known.until) return known.answer;
    // Not with the signal of the first caller: others may wait for the same answer.
    const answer = lookUp();
    const entry = { until: now() + FOUND_MS, answer };
    answers.set(name, entry);
    const settle = (until: number | undefined): void => {
      if (answers.get(name) !== entry) return;
      if (until === undefined) answers.delete(name);
      else answers.set(name, { until, answer });
    };
    answer.then(
      (found) => {
        settle(now() + (found === undefined ? ABSENT_MS : FOUND_MS));
      },
      () => {
        settle(undefined);
      },
    );
    return answer;
  };

  return {
    resolve: async (wanted, signal) => ask(groupResourceName(wanted), () => lookUp(rest, wanted), signal),
    resolveKind: async (wanted, signal) => ask(kindName(wanted), () => lookUpKind(rest, wanted), signal),
    forget: (resource) => {
      answers.delete(groupResourceName(resource));
      for (const name of answers.keys()) if (name.startsWith(kindsOf(resource))) answers.delete(name);
    },
    serverVersion: async (signal) => {
      const version = await rest.request<unknown>({ method: 'GET', path: '/version', signal });
      const { major, minor, gitVersion } = isRecord(version) ? version : {};
      return { major: leadingNumber(major), minor: leadingNumber(minor), gitVersion: textOf(gitVersion) };
    },
  };
}

/** No resource has a name that begins so: it is no part of a URL. */
const kindsOf = ({ group }: Pick<Resource, 'group'>): string => `kind ${group}/`;
const kindName = ({ group, version, kind }: Pick<Resource, 'group' | 'version' | 'kind'>): string =>
  `${kindsOf({ group })}${version}/${kind}`;

async function lookUp(
  rest: Rest,
  { group, resource }: Pick<Resource, 'group' | 'resource'>,
): Promise<Resource | undefined> {
  for (const version of await versionsOf(rest, group)) {
    const found = (await servedIn(rest, group, version)).find((one) => one.resource === resource);
    if (found !== undefined) return found;
  }
  return undefined;
}

async function lookUpKind(
  rest: Rest,
  { group, version: wanted, kind }: Pick<Resource, 'group' | 'version' | 'kind'>,
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

/** Subresources too. */
async function servedIn(rest: Rest, group: string, version: string): Promise<readonly Resource[]> {
  const path = group === '' ? '/api/v1' : `/apis/${encodeURIComponent(group)}/${encodeURIComponent(version)}`;
  return listIn(await getIfThere(rest, path), 'resources').flatMap((entry) =>
    isRecord(entry) && typeof entry.name === 'string'
      ? [
          {
            group,
            version,
            resource: entry.name,
            kind: textOf(entry.kind),
            namespaced: entry.namespaced === true,
          },
        ]
      : [],
  );
}

/** The preferred version first. */
async function versionsOf(rest: Rest, group: string): Promise<readonly string[]> {
  if (group === '') return ['v1'];
  const found = await getIfThere(rest, `/apis/${encodeURIComponent(group)}`);
  const preferred = isRecord(found) ? versionIn(found.preferredVersion) : undefined;
  const all = listIn(found, 'versions').map(versionIn);
  return [...new Set([preferred, ...all])].filter((version) => version !== undefined);
}

async function getIfThere(rest: Rest, path: string): Promise<unknown> {
  try {
    return await rest.request<unknown>({ method: 'GET', path });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

function listIn(value: unknown, field: string): readonly unknown[] {
  const list = isRecord(value) ? value[field] : undefined;
  return Array.isArray(list) ? list : [];
}

function versionIn(entry: unknown): string | undefined {
  return isRecord(entry) && typeof entry.version === 'string' ? entry.version : undefined;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Cloud providers write `20+`. */
function leadingNumber(value: unknown): number {
  return Number.parseInt(textOf(value), 10) || 0;
}
