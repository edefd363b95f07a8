/** The API server under test: a real one, or the sandbox if GATEHOUSE_TEST_API selects it. */
import { createHash } from 'node:crypto';

import { startControlPlane } from '../support/control-plane.ts';
import { createApi, type Exchange } from './api.ts';
import { installFixtures, type ConformanceCase } from './fixtures.ts';
import { createTransport } from '../support/transport.ts';
import { startHooks } from './hook-server.ts';
import * as customResources from './cases/custom-resources.ts';
import * as objects from './cases/objects.ts';
import * as webhooks from './cases/webhooks.ts';

export const ALL_CASES: readonly ConformanceCase[] = [objects, customResources, webhooks].flatMap((groups) =>
  Object.values(groups).flat(),
);

export type Subject = Awaited<ReturnType<typeof startSubject>>;

/** It creates a ConfigMap in each namespace, at any time: the cases list and watch ConfigMaps. */
const PUBLISHER = ['root-ca-cert-publisher'];

export async function startSubject() {
  const plane = await startControlPlane({ own: true, withoutControllers: PUBLISHER });
  const hooks = await startHooks();
  const transport = createTransport(plane.server, plane.ca);
  const stop = async () => {
    await transport.stop();
    await hooks.stop();
    await plane.stop();
  };
  const open = (id: string, transcript: Exchange[] = []) =>
    createApi({ id, plane, transport, transcript, hooks: hooks.forCase(id) });

  try {
    await installFixtures(open('default'), hooks.port);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    version: plane.version,
    /** Runs a case in its own namespace and returns the normalised transcript. */
    observe: async (conformanceCase: ConformanceCase) => {
      const id = wordFor(conformanceCase.name);
      const transcript: Exchange[] = [];
      const api = open(id, transcript);
      await api.given.create('/api/v1/namespaces', { metadata: { name: id, labels: { case: id } } });
      try {
        await conformanceCase.run(api);
      } catch (error) {
        throw new Error(`after ${JSON.stringify(transcript.slice(-2), undefined, 1)}`, { cause: error });
      } finally {
        await api.hooks.clear(api.given);
      }
      return normalise(transcript, id, conformanceCase.keepManagedFields ?? false);
    },
    stop,
  };
}

/** The same word in every run, for any order of the cases. */
const wordFor = (name: string) => `c${createHash('sha256').update(name).digest('hex').slice(0, 7)}`;

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
type JsonMap = Readonly<Record<string, Json>>;

/** Fields that are removed when they become empty. */
const EMPTIED = new Set(['labels', 'warning', 'headers']);

/** @param id the unique word of the case in names; it becomes `case` */
function normalise(transcript: readonly Exchange[], id: string, keepManagedFields: boolean): Json {
  const raw = JSON.parse(JSON.stringify(transcript)) as Json; // the result of JSON.parse
  const names = createNames(id);
  const versions = numbered('version');

  const walk = (value: Json, key: string): Json => {
    if (typeof value === 'string') return names(key, value);
    if (isList(value)) return value.map((item) => walk(item, key));
    if (!isMap(value)) return value;
    // Sorted, so that numbering does not depend on the server's key order.
    const entries = Object.entries(withVersion(value, versions))
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .filter(([name, item]) => !isNothing(name, item))
      .filter(([name]) => keepManagedFields || name !== 'managedFields')
      .map(([name, item]): [string, Json] => [
        names('', name),
        walk(name === 'causes' ? withoutRepetition(item) : item, name),
      ]);
    return Object.fromEntries(entries.filter(([name, item]) => !(EMPTIED.has(name) && isEmpty(item))));
  };
  return walk(raw, '');
}

/** Go's zero values, which some releases write and others omit. */
const isNothing = (name: string, item: Json): boolean =>
  (name === 'continue' && item === '') || (/^(creationTimestamp|eventTime)$/.test(name) && item === null);

function withVersion(value: JsonMap, versions: (version: string) => string): JsonMap {
  const { metadata, kind } = value;
  if (!isMap(metadata) || typeof metadata.resourceVersion !== 'string') return value;
  const version = metadata.resourceVersion;
  if (!/^\d+$/.test(version)) return value;
  const shown = typeof kind === 'string' && kind.endsWith('List') ? '<storage>' : versions(version);
  return { ...value, metadata: { ...metadata, resourceVersion: shown } };
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;

/** Replaces the parts of a string that differ between runs with placeholders. */
function createNames(id: string) {
  const uids = numbered('uid');
  return (key: string, text: string): string => {
    if (key === 'resourceVersion' && /^\d+$/.test(text)) return '<version>';
    let named = text
      .replaceAll(UUID, (uid) => (/^[0-]+[01]?$/.test(uid) ? uid : uids(uid)))
      .replaceAll(id, 'case');
    for (const [pattern, shown] of OF_A_RUN) named = named.replaceAll(pattern, shown);
    return named;
  };
}

/** Replaces equal values by the same number, in order of first appearance. */
function numbered(what: string): (value: string) => string {
  const seen = new Map<string, string>();
  return (value) => {
    const shown = seen.get(value) ?? `<${what} ${seen.size + 1}>`;
    seen.set(value, shown);
    return shown;
  };
}

/** Servers evaluate a rule a different number of times. */
function withoutRepetition(items: Json): Json {
  if (!isList(items)) return items;
  const texts = items.map((item) => JSON.stringify(item));
  return items.filter((_item, index) => texts.indexOf(texts[index] ?? '') === index);
}

const isList = (value: Json | undefined): value is readonly Json[] => Array.isArray(value);

const isMap = (value: Json | undefined): value is JsonMap =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isEmpty = (value: Json) => (isMap(value) || isList(value)) && Object.keys(value).length === 0;

/** Values that differ between runs. */
const OF_A_RUN: readonly (readonly [pattern: RegExp, shown: string])[] = [
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, '<time>'],
  [/\b10\.\d+\.\d+\.\d+/g, '<cluster ip>'],
  [/(localhost|127\.0\.0\.1|\[::1\]|svc):\d{4,5}/g, '$1:<port>'],
  [/(current: |ResourceVersion in object meta: )\d+/g, '$1<version>'],
  [/(ResourceVersion in (?:the precondition|record)) \(\d+\)/g, '$1 (<version>)'],
  // Go syntax, and JSON in later releases.
  [/\[\]string\{([^{}]*)\}/g, '[$1]'],
  [/StorageError: .* AdditionalErrorMsg: /g, ''], // the protocol of etcd
];
