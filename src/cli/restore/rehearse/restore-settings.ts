/** What a Restore of Velero, or flags with the same meaning, ask for. */
import { messageOf } from '../../../json/abort.ts';
import { type JsonObject, listIn, objectIn, textIn } from '../../../json/json.ts';
import { groupResourceName } from '../../../json/kube-object.ts';
import { type NormalSelector, normaliseSelector } from '../../../json/label-selector.ts';
import { ApiFailure } from '../../../machinery/failure.ts';
import * as s from '../../../machinery/kinds/schema-builders.ts';
import { withoutNulls } from '../../../machinery/patch/json-patch.ts';
import { prune } from '../../../machinery/schema/prune.ts';
import { validateSchema } from '../../../machinery/schema/validate.ts';
import { parseLabelRequirements } from '../../../machinery/selectors/selectors.ts';
import { parseGroupResource } from '../../../restore/backup/backup.ts';
import type { RestoreNames } from '../../../restore/backup/restored-object.ts';
import { isNeverRestored, type SelectionOptions } from '../../../restore/backup/selection.ts';
import { describePlace, type PlacedObject, UnusableInput } from '../../review/input.ts';
import type { Kinds } from '../../review/kinds.ts';
import { WrongUsage } from '../new-window.ts';
import type { RehearseFlags } from './input.ts';
import { modifiersOf } from './modifiers.ts';
import { resourceFilterOf } from './resource-filters.ts';

const CONTAINER = {
  ...s.openObject({ command: { type: 'array', minItems: 1 } }),
  required: ['name', 'image', 'command'],
};
const HOOK = s.openObject({ init: s.openObject({ initContainers: s.listOf(CONTAINER) }) });
const CONFIG_MAP = {
  ...s.object({ apiGroup: s.STRING, kind: s.STRING, name: s.STRING }),
  required: ['kind', 'name'],
};
/** Without the fields that can change objects in ways that a rehearsal does not know. */
const SPEC = s.object({
  includedNamespaces: s.STRINGS,
  excludedNamespaces: s.STRINGS,
  includedResources: s.STRINGS,
  excludedResources: s.STRINGS,
  backupName: s.STRING,
  scheduleName: s.STRING,
  includeClusterResources: s.BOOLEAN,
  labelSelector: s.LABEL_SELECTOR,
  orLabelSelectors: s.listOf(s.LABEL_SELECTOR),
  namespaceMapping: s.STRINGS_BY_KEY,
  preserveNodePorts: s.BOOLEAN,
  existingResourcePolicy: { type: 'string', enum: ['', 'none', 'update'] },
  resourceModifier: CONFIG_MAP,
  resourcePolicy: CONFIG_MAP,
  hooks: s.openObject({ resources: s.listOf(s.openObject({ postHooks: s.listOf(HOOK) })) }),
  itemOperationTimeout: s.STRING,
  uploaderConfig: s.object({ writeSparseFiles: s.BOOLEAN, parallelFilesDownload: s.INT64 }),
});

export interface RestoreSettings {
  readonly names: RestoreNames;
  readonly selection: SelectionOptions;
  readonly existingResourcePolicy: 'none' | 'update';
  readonly veleroNamespace: string;
  readonly notes: readonly string[];
}

/** @param given the Restore and its ConfigMaps; else the flags count @throws UnusableInput, WrongUsage */
export function settingsOf(
  flags: RehearseFlags,
  given: readonly PlacedObject[],
  kinds: Pick<Kinds, 'registry'>,
): RestoreSettings {
  const { place, object: restore } = (flags.restore && restoreIn(given)) ?? {
    object: { spec: specOf(flags) },
  };
  if (place !== undefined && Object.keys(specOf(flags)).length > 1)
    throw new WrongUsage('--restore: not together with flags that select: write them in the Restore');
  const spec = objectIn({ spec: withoutNulls(objectIn(restore, 'spec')) }, 'spec');
  const namespace = textIn(restore, 'metadata', 'namespace') || flags.veleroNamespace;
  const resolve = resolverOf(kinds);
  const read = createReader(spec, given, namespace);
  const isUsed = textIn(spec, 'resourceModifier', 'kind').toLowerCase() === 'configmap'; // Velero ignores other kinds
  const modify = isUsed ? read('resourceModifier', modifiersOf) : undefined;
  const filter = read('resourcePolicy', (configMap) => resourceFilterOf(configMap, resolve));
  const problems = [
    ...specProblems(spec),
    ...[modify, filter].filter((one): one is string => typeof one === 'string'),
  ];
  if (problems.length > 0 && place === undefined)
    throw new WrongUsage(problems.map((one) => one.replace(/^spec\.\w+/, flagOf)).join('\n'));
  if (place !== undefined && problems.length > 0)
    throw new UnusableInput(
      `${describePlace(place)}: Velero would refuse this Restore (FailedValidation): ${problems.join('; ')}`,
    );
  const mapping = objectIn(spec, 'namespaceMapping');
  const namespaceMapping = Object.keys(mapping).map((from) => [from, textIn(mapping, from)] as const);
  return {
    names: {
      backup: 'backup',
      restore: 'rehearsal',
      namespaceMapping: Object.fromEntries(namespaceMapping),
      preserveNodePorts: spec.preserveNodePorts === true,
      modify: typeof modify === 'string' ? undefined : modify,
    },
    selection: {
      ...selectionIn(spec, (name) => resolve(name) ?? name),
      filter: typeof filter === 'string' ? undefined : filter,
    },
    existingResourcePolicy: spec.existingResourcePolicy === 'update' ? 'update' : 'none',
    veleroNamespace: namespace,
    notes: notesOn(spec),
  };
}

/** `spec.includedNamespaces` is `--include-namespaces`, `spec.orLabelSelectors` is `--or-selector`. */
const flagOf = (field: string): string =>
  field
    .replace('spec.', '--')
    .replace('cluded', 'clude')
    .replace('LabelSelectors', 'Selector')
    .replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

function restoreIn(given: readonly PlacedObject[]): PlacedObject {
  const [restore, ...more] = given.filter(
    ({ object }) => textIn(object, 'apiVersion') === 'velero.io/v1' && textIn(object, 'kind') === 'Restore',
  );
  if (restore === undefined || more.length > 0)
    throw new UnusableInput('--restore: the files must contain exactly one Restore of velero.io/v1');
  return restore;
}

/** @returns reads the ConfigMap that a field of the spec names; a text says why Velero would refuse it */
function createReader(spec: JsonObject, given: readonly PlacedObject[], namespace: string) {
  return <Read>(field: string, read: (configMap: JsonObject) => Read): Read | string | undefined => {
    if (!(field in spec)) return undefined;
    const [kind, name] = [textIn(spec, field, 'kind'), textIn(spec, field, 'name')];
    if (kind.toLowerCase() !== 'configmap') return `spec.${field}.kind: ${kind} is not ConfigMap`;
    const configMap = given.find(
      ({ object }) =>
        textIn(object, 'kind') === 'ConfigMap' &&
        textIn(object, 'metadata', 'name') === name &&
        ['', namespace].includes(textIn(object, 'metadata', 'namespace')),
    );
    const label = `spec.${field}: ConfigMap ${namespace}/${name}`;
    if (configMap === undefined) return `${label} not found: add it to a file of --restore`;
    try {
      return read(configMap.object);
    } catch (error) {
      return `${label}: ${messageOf(error)}`;
    }
  };
}

/** @see validateAndComplete in restore_controller.go of Velero */
function specProblems(spec: JsonObject): readonly string[] {
  const { backupName = '', scheduleName = '' } = spec;
  return [
    ...validateSchema(spec, SPEC).map(({ field, message }) => `spec.${field}: ${message}`),
    ...stringsIn(spec, 'includedResources')
      .filter(isNeverRestored)
      .map((name) => `spec.includedResources: Velero never restores ${name}: remove it`),
    ...listProblems(spec, 'Resources'),
    ...listProblems(spec, 'Namespaces'),
    ...('orLabelSelectors' in spec && 'labelSelector' in spec
      ? ['spec.orLabelSelectors: not together with labelSelector: remove one of the two']
      : []),
    ...selectorsIn(spec).flatMap(({ problems }) =>
      problems.map(({ where, message }) => `${where}: ${message}`),
    ),
    ...((backupName === '') === (scheduleName === '')
      ? ['spec.backupName: write either backupName or scheduleName']
      : []),
  ];
}

function listProblems(spec: JsonObject, what: 'Resources' | 'Namespaces'): readonly string[] {
  const [included, excluded] = [stringsIn(spec, `included${what}`), stringsIn(spec, `excluded${what}`)];
  return [
    ...(new Set(included).size > 1 && included.includes('*')
      ? [`spec.included${what}: write * alone, or names without it`]
      : []),
    ...(excluded.includes('*') ? [`spec.excluded${what}: must not contain *`] : []),
    ...excluded
      .filter((one) => included.includes(one))
      .map((one) => `spec.excluded${what}: ${one} is also included: remove it from one of the two`),
  ];
}

const stringsIn = (spec: JsonObject, field: string): readonly string[] => listIn(spec, field).map(String);

const selectorsIn = (spec: JsonObject) =>
  [spec.labelSelector ?? [], listIn(spec, 'orLabelSelectors')]
    .flat()
    .map((one) => normaliseSelector(one, 'spec.labelSelector'));

function selectionIn(spec: JsonObject, resolve: (name: string) => string): SelectionOptions {
  const { includeClusterResources } = spec;
  return {
    includeNamespaces: stringsIn(spec, 'includedNamespaces'),
    excludeNamespaces: stringsIn(spec, 'excludedNamespaces'),
    includeResources: stringsIn(spec, 'includedResources').map(resolve),
    excludeResources: stringsIn(spec, 'excludedResources').map(resolve),
    includeClusterResources:
      typeof includeClusterResources === 'boolean' ? includeClusterResources : undefined,
    selectors: selectorsIn(spec).map(({ selector }) => selector),
  };
}

function notesOn(spec: JsonObject): readonly string[] {
  const ignored = ['hooks' in spec ? 'hooks' : [], prune(spec, SPEC).unknown].flat();
  const kind = textIn(spec, 'resourceModifier', 'kind');
  return [
    ...ignored.map((field) => `spec.${field} of the Restore: the rehearsal ignores it`),
    ...(kind === '' || kind.toLowerCase() === 'configmap'
      ? []
      : [`spec.resourceModifier: Velero ignores it: its kind is ${kind}, not ConfigMap`]),
  ];
}

/** As Velero looks up resources in the target: plural, short or singular, with or without a group. */
function resolverOf({ registry }: Pick<Kinds, 'registry'>) {
  const types = registry.all();
  return (name: string): string | undefined => {
    const { group, resource } = parseGroupResource(name.toLowerCase());
    const named = [
      ...types.filter((type) => type.resource === resource),
      ...types.filter((type) => type.shortNames.includes(resource)),
      ...types.filter((type) => type.singular === resource),
    ];
    const found =
      named.find((type) => type.group === group) ?? named.find((type) => type.group.startsWith(group));
    return found && groupResourceName(found);
  };
}

/** Only the fields whose flags are given. */
function specOf(flags: RehearseFlags): JsonObject {
  const { includeClusterResources, existingResourcePolicy, namespaceMappings, selector } = flags;
  const given = {
    includedNamespaces: flags.includeNamespaces,
    excludedNamespaces: flags.excludeNamespaces,
    includedResources: flags.includeResources,
    excludedResources: flags.excludeResources,
    includeClusterResources,
    labelSelector: selector === undefined ? undefined : selectorOf('--selector', selector),
    orLabelSelectors: flags.orSelector?.split(' or ').map((one) => selectorOf('--or-selector', one)),
    preserveNodePorts: flags.preserveNodeports,
    namespaceMapping: namespaceMappings.length === 0 ? undefined : parseMapping(namespaceMappings),
    existingResourcePolicy: existingResourcePolicy === 'none' ? undefined : existingResourcePolicy,
  };
  const fields = Object.entries(given).filter(([, value]) => value !== undefined);
  return { backupName: 'backup', ...(Object.fromEntries(fields) as JsonObject) }; // our own values
}

function parseMapping(pairs: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const [from = '', to = '', ...more] = pair.split(':');
      if (from === '' || to === '' || more.length > 0)
        throw new WrongUsage(`--namespace-mappings ${pair}: write it as from:to`);
      return [from, to];
    }),
  );
}

const OPERATORS = { in: 'In', notin: 'NotIn', exists: 'Exists', '!': 'DoesNotExist' } as const;

function selectorOf(flag: string, text: string): NormalSelector {
  try {
    return {
      matchExpressions: parseLabelRequirements(text).map(({ key, operator, values }) => {
        if (operator === 'gt' || operator === 'lt')
          throw new WrongUsage(`${flag} ${text}: < and > are not supported`);
        return { key, operator: OPERATORS[operator], values };
      }),
    };
  } catch (error) {
    if (error instanceof ApiFailure) throw new WrongUsage(`${flag} ${text}: ${error.message}`);
    throw error;
  }
}
