/** The resource modifiers of a Restore (internal/resourcemodifiers of Velero 1.18). */
import { matches as matchesRegex } from '../../../cel/regular-expression.ts';
import { messageOf } from '../../../json/abort.ts';
import { unescapePart } from '../../../json/json-patch.ts';
import {
  isEqual,
  isJsonArray,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  listIn,
  objectIn,
  parseJson,
  textIn,
} from '../../../json/json.ts';
import { groupResourceName } from '../../../json/kube-object.ts';
import { matchesSelector, normaliseSelector } from '../../../json/label-selector.ts';
import * as s from '../../../machinery/kinds/schema-builders.ts';
import { DEPLOYMENT } from '../../../machinery/kinds/workloads/workloads.ts';
import { applyJsonPatch, applyMergePatch } from '../../../machinery/patch/json-patch.ts';
import { applyStrategicPatch } from '../../../machinery/patch/strategic-merge-patch.ts';
import { wholeSchema } from '../../../machinery/schema/object-meta.ts';
import type { Schema } from '../../../machinery/schema/schema.ts';
import { createStorage } from '../../../machinery/storage/storage.ts';
import { compileGlob, createIncludes } from '../../../restore/backup/glob.ts';
import { labelsOf } from '../../../restore/backup/selection.ts';
import type { Modify } from '../../../restore/backup/restored-object.ts';
import { createKinds } from '../../review/kinds.ts';
import { decodeConfigMap, yamlValue } from './config-map.ts';

const TEXT: Schema = { type: 'string', minLength: 1 };
const PATCH_DATA = s.listOf(s.object({ patchData: s.STRING }));
const CONDITIONS = s.object({
  namespaces: s.STRINGS,
  groupResource: TEXT,
  resourceNameRegex: s.STRING,
  labelSelector: s.LABEL_SELECTOR,
  matches: s.listOf(s.object({ path: s.STRING, value: s.STRING })),
});
const OPERATION: Schema = { type: 'string', pattern: '^(?i)(add|remove|replace|test|move|copy)$' };
const PATCH = s.object({ operation: OPERATION, from: s.STRING, path: TEXT, value: s.STRING });
const RULE = s.object({
  conditions: { ...CONDITIONS, required: ['groupResource'] },
  patches: s.listOf({ ...PATCH, required: ['operation', 'path'] }),
  mergePatches: PATCH_DATA,
  strategicPatches: PATCH_DATA,
});
const RULES: Schema = { ...s.listOf({ ...RULE, required: ['conditions'] }), minItems: 1 };
const MODIFIERS: Schema = {
  ...s.object({ version: { type: 'string', pattern: '^[vV]1$' }, resourceModifierRules: RULES }),
  required: ['version', 'resourceModifierRules'],
};
const KINDS_OF_PATCHES = ['patches', 'mergePatches', 'strategicPatches'] as const;

/** @throws Error if Velero would refuse the ConfigMap */
export function modifiersOf(configMap: JsonObject): Modify {
  const rules = listIn(decodeConfigMap(configMap, MODIFIERS, problemsIn), 'resourceModifierRules');
  const schemaOf = createSchemas();
  return (object, resource) => {
    const failed: string[] = [];
    let modified = object;
    for (const [index, rule] of rules.entries())
      try {
        if (isMatched(rule, object, groupResourceName(resource)))
          modified = patched(rule, modified, schemaOf);
      } catch (error) {
        failed.push(`resourceModifierRules[${index}]: ${messageOf(error)}`);
      }
    return { object: modified, failed };
  };
}

const problemsIn = (value: JsonValue): readonly string[] =>
  listIn(value, 'resourceModifierRules').flatMap((rule, index) =>
    KINDS_OF_PATCHES.filter((kind) => listIn(rule, kind).length > 0).length > 1
      ? [`resourceModifierRules[${index}]: only one of ${KINDS_OF_PATCHES.join(', ')} is allowed`]
      : [],
  );

/** Judges the object as it was before all rules. @throws Error for an invalid condition */
function isMatched(rule: JsonValue, object: JsonObject, resource: string): boolean {
  const conditions = objectIn(rule, 'conditions');
  const namespace = textIn(object, 'metadata', 'namespace');
  const namespaces = listIn(conditions, 'namespaces').map(String);
  if (namespace !== '' && !createIncludes(namespaces).selects(namespace)) return false;
  if (!compileGlob(textIn(conditions, 'groupResource'), '.').test(resource)) return false;
  const regex = textIn(conditions, 'resourceNameRegex');
  if (regex !== '' && !matchesRegex(textIn(object, 'metadata', 'name'), regex)) return false;
  const { selector, problems } = normaliseSelector(conditions.labelSelector, 'conditions.labelSelector');
  const [problem] = problems;
  if (problem !== undefined) throw new Error(`${problem.where}: ${problem.message}`);
  if (!matchesSelector(selector, labelsOf(object))) return false;
  const tests = listIn(conditions, 'matches').map((match): JsonObject => {
    if (textIn(match, 'path') === '') throw new Error('conditions.matches: path must not be empty');
    return { ...objectIn(match), operation: 'test' };
  });
  try {
    applyOperations(object, tests);
    return true;
  } catch (error) {
    if (error instanceof TestFailed || error instanceof NotFound) return false;
    throw error;
  }
}

type SchemaOf = (object: JsonObject) => Schema;

function patched(rule: JsonValue, object: JsonObject, schemaOf: SchemaOf): JsonObject {
  const kind = KINDS_OF_PATCHES.find((one) => listIn(rule, one).length > 0);
  if (kind === undefined) throw new Error('it has no patches');
  const result =
    kind === 'patches' ? withTests(object, listIn(rule, kind)) : withPatchData(rule, object, schemaOf);
  if (textIn(result, 'kind') === '') throw new Error(`${kind}: the result has no kind`);
  return result;
}

function withPatchData(rule: JsonValue, object: JsonObject, schemaOf: SchemaOf): JsonObject {
  const merged = listIn(rule, 'mergePatches');
  const schema = merged.length > 0 ? undefined : schemaOf(object);
  return [...merged, ...listIn(rule, 'strategicPatches')].reduce<JsonObject>((before, patch, index) => {
    try {
      const change = yamlValue(textIn(patch, 'patchData'));
      return schema === undefined
        ? applyMergePatch(before, change)
        : applyStrategicPatch(before, change, schema);
    } catch (error) {
      throw new Error(`patchData[${index}]: ${messageOf(error)}`, { cause: error });
    }
  }, object);
}

/** The groups whose types Velero knows. */
const STRATEGIC =
  /^(v1|(apps|batch|velero\.io|snapshot\.storage\.k8s\.io)\/v1|velero\.io\/v2alpha1|groupsnapshot\.storage\.k8s\.io\/v1beta2)$/;
/** Their other lists are replaced, as without a schema. */
const WITH_POD_TEMPLATE = ['DaemonSet', 'Job', 'ReplicationController', 'StatefulSet'];

function createSchemas(): SchemaOf {
  const { typeOf } = createKinds([], createStorage());
  return (object) => {
    const [version, kind] = [textIn(object, 'apiVersion'), textIn(object, 'kind')];
    const type = typeOf(object);
    if (!STRATEGIC.test(version) || (typeof type === 'string' && !version.includes('.')))
      throw new Error(
        `Velero applies no strategic patch to ${kind} of ${version}: use patches or mergePatches`,
      );
    if (WITH_POD_TEMPLATE.includes(kind)) return wholeSchema(DEPLOYMENT);
    if (kind === 'CronJob')
      return wholeSchema({ schema: s.object({ spec: s.object({ jobTemplate: DEPLOYMENT.schema }) }) });
    return typeof type === 'string' ? {} : wholeSchema(type);
  };
}

/** A failed test leaves the object as it is, without an error. */
function withTests(object: JsonObject, patches: readonly JsonValue[]): JsonObject {
  try {
    return applyOperations(object, patches);
  } catch (error) {
    if (error instanceof TestFailed) return object;
    throw error;
  }
}

class TestFailed extends Error {}
class NotFound extends Error {}

function applyOperations(object: JsonObject, patches: readonly JsonValue[]): JsonObject {
  const operations = patches.map((patch) => ({
    op: textIn(patch, 'operation'),
    from: textIn(patch, 'from'),
    path: textIn(patch, 'path'),
    value: valueOf(textIn(patch, 'value'), textIn(patch, 'path')),
  }));
  return operations.reduce<JsonObject>((document, { op, from, path, value }) => {
    if (op === 'test') {
      if (isEqual(lookUp(document, path) ?? null, value)) return document;
      throw new TestFailed(`${path}: has another value`);
    }
    const sources: Readonly<Record<string, string>> = { replace: path, remove: path, move: from, copy: from };
    const source = sources[op];
    if (source !== undefined && lookUp(document, source) === undefined)
      throw new NotFound(`${op} ${source}: not found in the object`);
    try {
      return applyJsonPatch(document, [{ op, from, path, value }]);
    } catch (error) {
      throw new Error(`${op} ${path}: does not apply to the object`, { cause: error });
    }
  }, object);
}

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** Velero writes the value into JSON without escapes, in quotes only if it looks like a string. @throws Error */
function valueOf(text: string, path: string): JsonValue {
  const isQuoted = text.length > 1 && text.startsWith('"') && text.endsWith('"');
  const isNumber =
    /^[+-]?inf(inity)?$|^nan$/i.test(text) || (NUMBER.test(text) && Number.isFinite(Number(text)));
  const isBare = /^(null|[tT][rR][uU][eE]|[fF][aA][lL][sS][eE]|[{[][^]*)$/.test(text) || isNumber;
  const json = isQuoted || isBare ? text : `"${text}"`;
  try {
    return parseJson(json);
  } catch (error) {
    throw new Error(`${path}: the value ${text} is not JSON`, { cause: error });
  }
}

/** Undefined: the last key is absent. @throws NotFound without its container, Error for an index outside of its list */
function lookUp(document: JsonObject, path: string): JsonValue | undefined {
  if (path === '') return document;
  const [, ...keys] = path.split('/').map(unescapePart);
  const last = keys.pop();
  const container = keys.reduce<JsonValue | undefined>(childOf, document);
  if (last === undefined || (!isJsonArray(container) && !isJsonObject(container)))
    throw new NotFound(`${path}: not found in the object`);
  const found = childOf(container, last);
  if (isJsonArray(container) && found === undefined) throw new Error(`${path}: the index is not in the list`);
  return found;
}

function childOf(container: JsonValue | undefined, key: string): JsonValue | undefined {
  if (isJsonArray(container)) return /^[+-]?\d{1,9}$/.test(key) ? container.at(Number(key)) : undefined;
  return isJsonObject(container) && Object.hasOwn(container, key) ? container[key] : undefined;
}
