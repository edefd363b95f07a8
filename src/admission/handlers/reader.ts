import { groupResourceName, isDnsLabel, isObjectName } from '../../json/kube-object.ts';
import { matchesSelector, normaliseSelector, type NormalSelector } from '../../json/label-selector.ts';
import { quote } from '../../json/printable.ts';
import { labelsOf } from '../policy/object-metadata.ts';
import { type CompiledHandler, type ReadKind, readKindOf } from './compile-handler.ts';
import { ReadError } from './errors.ts';
import type { GetOptions, HandlerContext, ListOptions } from './handler.ts';
import { deepFreeze } from '../../json/json.ts';
import type { HandlerWorld } from './handler-world.ts';

export interface Reader extends Pick<HandlerContext<object>, 'get' | 'list'> {
  readonly hasUsedCache: () => boolean;
}

interface ReaderParts {
  readonly handler: Pick<CompiledHandler, 'reads'>;
  /** The namespace of the request. */
  readonly namespace: string | undefined;
  readonly world: HandlerWorld;
  /** `live`: never read from a store. */
  readonly from: 'cache' | 'live';
  readonly signal: AbortSignal;
}

export function createReader(parts: ReaderParts): Reader {
  const { world, signal } = parts;
  let usedCache = false;

  const get = async (resource: string, options: GetOptions): Promise<object | undefined> => {
    const kind = kindOf(parts, resource);
    const { name, live = parts.from === 'live' } = options;
    if (typeof name !== 'string')
      throw new TypeError(`get ${resource}: name is ${quote(name)}, not a string`);
    // Rejects invalid names, because such a name in a URL could lead to another object.
    if (!isObjectName(kind, name)) return undefined;
    const namespace = await namespaceOf(parts, kind, options.namespace);
    if (namespace === ALL) throw new Error(`get ${resource}: namespace is required for a namespaced kind`);
    const found = live ? undefined : world.find(kind, { namespace, name });
    if (found === undefined)
      return deepFreeze(
        await reading(kind, quote(name), () => world.read(kind, { namespace, name }, signal)),
      );
    usedCache = true;
    return found;
  };

  const list = async (resource: string, options: ListOptions = {}): Promise<readonly object[]> => {
    const kind = kindOf(parts, resource);
    const { live = parts.from === 'live', allNamespaces = false } = options;
    const selector = selectorOf(options.labelSelector);
    const wanted = allNamespaces ? ALL : await namespaceOf(parts, kind, options.namespace);
    const namespace = wanted === ALL ? undefined : wanted;
    const stored = live ? undefined : world.select(kind, namespace);
    usedCache ||= stored !== undefined;
    const query = { namespace, labelSelector: selectorText(selector) };
    const found =
      stored ??
      deepFreeze(await reading(kind, namespace ?? 'everywhere', () => world.query(kind, query, signal)));
    return Object.freeze(found.filter((object) => matchesSelector(selector, labelsOf(object))));
  };

  return {
    // The author guarantees the type of objects of other resources.
    get: get as Reader['get'],
    list: list as Reader['list'],
    hasUsedCache: () => usedCache,
  };
}

function kindOf({ handler }: ReaderParts, resource: string): ReadKind {
  const kind = readKindOf(handler.reads, resource);
  if (typeof kind === 'string') throw new Error(kind);
  return kind;
}

const ALL = '*';

/** {@link ALL} for namespaced kinds if neither the author nor the request has a namespace. */
async function namespaceOf(
  { world, namespace, signal }: ReaderParts,
  kind: ReadKind,
  wanted: string | undefined,
): Promise<string | undefined> {
  if (wanted !== undefined && !isDnsLabel(wanted))
    throw new Error(`namespace: ${quote(wanted)} is not a valid name`);
  const isNamespaced = await reading(kind, 'at all', () => world.isNamespaced(kind, signal));
  return isNamespaced ? (wanted ?? namespace ?? ALL) : undefined;
}

/** @throws ReadError if the API server does not answer */
async function reading<T>(kind: ReadKind, what: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    throw new ReadError(`could not read ${groupResourceName(kind)} ${what}`, { cause });
  }
}

export function selectorOf(given: unknown): NormalSelector {
  const { selector, problems } = normaliseSelector(given ?? {}, 'labelSelector');
  const [problem] = problems;
  if (problem !== undefined) throw new TypeError(`${problem.where}: ${problem.message}`);
  return selector;
}

/** The selector as a query parameter of the API; undefined if it selects everything. */
export function selectorText({
  matchLabels = {},
  matchExpressions = [],
}: NormalSelector): string | undefined {
  const parts = [
    ...Object.entries(matchLabels).map(([key, value]) => `${key}=${value}`),
    ...matchExpressions.map(({ key, operator, values = [] }) => {
      switch (operator) {
        case 'In':
          return `${key} in (${values.join(',')})`;
        case 'NotIn':
          return `${key} notin (${values.join(',')})`;
        case 'Exists':
          return key;
        case 'DoesNotExist':
          return `!${key}`;
      }
    }),
  ];
  return parts.length === 0 ? undefined : parts.join(',');
}
