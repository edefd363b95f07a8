/** Writes the objects of a backup one after the other, as Velero does, and handles refusals like Velero. */
import { resourcePath } from '../../src/kube/object.ts';
import { groupResourceName } from '../../src/json/kube-object.ts';
import { namespaces } from '../../src/kube/well-known.ts';
import { isRefusal, sayOf, type Answer, type Json, type ToolClient } from './velero-client.ts';
import { mergeDiff, restoreLabels, stripped, withMetadata, type BackupObject } from './velero-objects.ts';
import type { Item } from './velero-order.ts';

/** The fields of a Restore's spec that select and change objects. */
export interface RestoreSpec {
  readonly backupName: string;
  readonly existingResourcePolicy?: 'none' | 'update';
  readonly namespaceMapping?: Readonly<Record<string, string>>;
  readonly includedNamespaces?: readonly string[];
  /** Resources whose status Velero also restores. */
  readonly restoreStatus?: { readonly includedResources: readonly string[] };
}

export interface ItemsOptions {
  readonly client: ToolClient;
  readonly restoreName: string;
  readonly spec: RestoreSpec;
  /** Namespaces from the backup. */
  readonly namespaces: ReadonlyMap<string, BackupObject>;
}

export interface Tally {
  readonly errors: string[];
  readonly warnings: string[];
}

const STATUS_ANNOTATION = 'velero.io/restore-status';
const STATUS_TRIES = 5;

export interface ItemWriter {
  /** Lists existing objects; Velero does not create these, because its informers know them from their first list. */
  readonly list: (items: readonly Item[]) => Promise<void>;
  /** Creates a Namespace of the backup if it is missing. */
  readonly writeNamespace: (name: string) => Promise<void>;
  readonly write: (item: Item) => Promise<void>;
  readonly tally: Tally;
}

export function createItemWriter(options: ItemsOptions): ItemWriter {
  const { client, spec } = options;
  const tally: Tally = { errors: [], warnings: [] };
  const known = new Set<string>();
  const ensured = new Set<string>();
  const labels = restoreLabels(spec.backupName, options.restoreName);

  const mapped = (name: string) => spec.namespaceMapping?.[name] ?? name;
  const writeNamespace = async (from: string): Promise<void> => {
    const name = mapped(from);
    if (ensured.has(name)) return;
    await ensureNamespace(name, from, options, tally);
    ensured.add(name);
  };
  const write = async ({ resource, object }: Item): Promise<void> => {
    const from = object.metadata.namespace;
    const namespace = from === undefined ? undefined : mapped(from);
    const what = `${groupResourceName(resource)}/${namespace === undefined ? '' : `${namespace}/`}${object.metadata.name}`;
    if (from !== undefined) await writeNamespace(from);
    const wanted = withMetadata(stripped(object), {
      ...(namespace === undefined ? {} : { namespace }),
      labels: { ...object.metadata.labels, ...labels },
    });
    const path = resourcePath(resource, { namespace, name: object.metadata.name });
    const isKnown = known.has(path);
    const created = isKnown
      ? undefined
      : await client.send('POST', resourcePath(resource, { namespace }), wanted);
    if (created === undefined || (created.code === 409 && created.body.reason === 'AlreadyExists'))
      await meetExisting({ what, path, wanted, labels }, options, tally);
    else if (isRefusal(created)) tally.errors.push(`error restoring ${what}: ${sayOf(created)}`);
    else await finishCreated({ what, path, item: { resource, object }, wanted, created }, options, tally);
  };
  return {
    list: async (items) => {
      for (const { resource } of new Map(
        items.map((item) => [groupResourceName(item.resource), item]),
      ).values())
        for (const path of await listed(client, resource)) known.add(path);
    },
    writeNamespace,
    write,
    tally,
  };
}

/** The paths of all objects of a kind. */
async function listed(client: ToolClient, resource: Item['resource']): Promise<readonly string[]> {
  const answer = await client.send('GET', resourcePath(resource));
  if (isRefusal(answer))
    throw new Error(`Velero cannot list ${groupResourceName(resource)}: ${sayOf(answer)}`);
  const items = answer.body.items as readonly BackupObject[]; // the API server answers with a list
  return items.map(({ metadata: { namespace, name } }) => resourcePath(resource, { namespace, name }));
}

/** Creates a missing Namespace. Velero puts no labels of its own on Namespaces. */
async function ensureNamespace(
  name: string,
  inBackup: string,
  { client, namespaces: backedUp }: ItemsOptions,
  tally: Tally,
): Promise<void> {
  const path = resourcePath(namespaces, { name });
  if ((await client.send('GET', path)).code !== 404) return;
  const { labels, annotations } = backedUp.get(inBackup)?.metadata ?? {};
  const created = await client.send('POST', resourcePath(namespaces), {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name,
      ...(labels === undefined ? {} : { labels }),
      ...(annotations === undefined ? {} : { annotations }),
    },
  });
  if (isRefusal(created)) tally.errors.push(`error creating namespace ${name}: ${sayOf(created)}`);
}

interface Existing {
  readonly what: string;
  readonly path: string;
  readonly wanted: BackupObject;
  readonly labels: Readonly<Record<string, string>>;
}

/**
 * Handles an object that exists: Velero writes it only if the policy says so. ServiceAccounts, which Velero always
 * merges, are omitted.
 */
async function meetExisting(
  { what, path, wanted, labels }: Existing,
  { client, spec }: ItemsOptions,
  tally: Tally,
): Promise<void> {
  const found = await client.send('GET', path);
  if (isRefusal(found)) {
    tally.errors.push(`error getting ${what}: ${sayOf(found)}`);
    return;
  }
  const current = stripped(found.body as unknown as BackupObject); // a response to a GET by name has a name
  const labelled = withMetadata(current, { labels: { ...current.metadata.labels, ...labels } });
  const isSame = mergeDiff(labelled, wanted) === undefined;
  if (spec.existingResourcePolicy !== 'update') {
    if (!isSame) tally.warnings.push(`could not restore ${what}: it exists and is different`);
    return;
  }
  const onlyLabels = { metadata: { labels } };
  const patch = isSame ? onlyLabels : (mergeDiff(current, wanted) ?? onlyLabels);
  const patched = await client.send('PATCH', path, patch);
  if (!isRefusal(patched)) return;
  tally.warnings.push(`error patching ${what}: ${sayOf(patched)}`);
  const labelOnly = await client.send('PATCH', path, onlyLabels);
  if (isRefusal(labelOnly)) tally.errors.push(`error labelling ${what}: ${sayOf(labelOnly)}`);
}

interface Created {
  readonly what: string;
  readonly path: string;
  readonly item: Item;
  readonly wanted: BackupObject;
  readonly created: Answer;
}

/** Restores the status, if requested, and then the original managedFields. */
async function finishCreated(
  { what, path, item: { resource, object }, wanted, created }: Created,
  { client, spec }: ItemsOptions,
  tally: Tally,
): Promise<void> {
  const byAnnotation = object.metadata.annotations?.[STATUS_ANNOTATION];
  const asked = spec.restoreStatus?.includedResources.includes(resource.resource) ?? false;
  if (byAnnotation === 'true' || (byAnnotation === undefined && asked)) {
    const answer = await writeStatus(client, path, { ...wanted, status: object.status }, created.body);
    if (isRefusal(answer)) tally.warnings.push(`error updating status of ${what}: ${sayOf(answer)}`);
  }
  const { managedFields } = object.metadata;
  if (managedFields === undefined) return;
  const answer = await client.send('PATCH', path, { metadata: { managedFields } });
  if (isRefusal(answer)) tally.errors.push(`error patch for managed fields ${what}: ${sayOf(answer)}`);
}

async function writeStatus(
  client: ToolClient,
  path: string,
  wanted: BackupObject,
  created: Json,
): Promise<Answer> {
  let live: Json = created;
  for (let tries = 1; ; tries++) {
    const { metadata } = live as unknown as BackupObject; // the API server's response is an object
    const body = { ...wanted, metadata: { ...wanted.metadata, resourceVersion: metadata.resourceVersion } };
    const answer = await client.send('PUT', `${path}/status`, body);
    if (answer.code !== 409 || tries === STATUS_TRIES) return answer;
    live = (await client.send('GET', path)).body;
  }
}
