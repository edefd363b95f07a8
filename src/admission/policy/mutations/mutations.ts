import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { CompileExpression } from '../expressions/compile-expression.ts';
import type { CompiledMatch, CompiledMutation, CompiledPolicy } from '../compiled-policy.ts';
import { requireWrites, type Report } from '../problem.ts';
import { CelError } from '../../../cel/cel.ts';
import { celToJson } from '../../../cel/values/cel-to-json.ts';
import type { Evaluate } from '../expressions/expression.ts';
import { messageOf } from '../../../json/abort.ts';
import { isJsonArray, isJsonObject, valueIn, type JsonObject, type JsonValue } from '../../../json/json.ts';
import { applyPatch, type PatchOperation } from '../../../json/json-patch.ts';
import { type ListTypes, mergeInto } from '../../../json/merge-patch.ts';
import { quote } from '../../../json/printable.ts';
import type { MakeChange } from './update-limits.ts';

export function compileMutations(
  { mutations = [] }: AdmissionPolicySpec,
  match: CompiledMatch,
  compile: CompileExpression,
  report: Report,
): readonly CompiledMutation[] {
  if (mutations.length > 0)
    requireWrites(match, 'spec.mutations would never change anything: add one of them', report);
  return mutations.flatMap(({ name, type = 'Merge', ...texts }, index): readonly CompiledMutation[] => {
    const where = `spec.mutations[${index}]`;
    const condition = compile(texts.condition, `${where}.condition`, 'bool', { refs: false });
    const change = compile(texts.expression, `${where}.expression`, 'any', { refs: false });
    return change === undefined ? [] : [{ name, type, condition, change }];
  });
}

export interface Making {
  readonly evaluateOn: (object: JsonObject) => Evaluate;
  readonly make: MakeChange;
  readonly lists: ListTypes;
}

/** @throws MutationError if an expression fails or its result cannot be applied */
export function applyMutations(
  { name, mutations }: CompiledPolicy,
  object: JsonObject,
  { evaluateOn, make, lists }: Making,
): JsonObject {
  return mutations.reduce((current, mutation) => {
    try {
      return make(mutation, current, () => applyOne(mutation, current, evaluateOn(current), lists));
    } catch (error) {
      if (!(error instanceof CelError || error instanceof InvalidChange)) throw error;
      throw new MutationError(`mutation ${mutation.name}: ${error.message}`, name, error);
    }
  }, object);
}

class InvalidChange extends Error {
  override name = 'InvalidChange';
}

function applyOne(
  { type, condition, change }: CompiledMutation,
  object: JsonObject,
  evaluate: Evaluate,
  lists: ListTypes,
): JsonObject {
  if (condition !== undefined && evaluate(condition) !== true) return object;
  const made = celToJson(evaluate(change));
  const changed = type === 'Merge' ? merged(object, made, lists) : patched(object, made);
  const moved = IDENTITY.find((path) => {
    const keys = path.split('.');
    return valueIn(object, ...keys) !== valueIn(changed, ...keys);
  });
  if (moved === undefined) return changed;
  throw new InvalidChange(`${moved} identifies the object and cannot be changed`);
}

const IDENTITY = ['apiVersion', 'kind', 'metadata.name', 'metadata.namespace', 'metadata.uid'];

function merged(object: JsonObject, change: JsonValue, lists: ListTypes): JsonObject {
  if (isJsonObject(change)) return mergeInto(object, change, lists);
  throw new InvalidChange(`the expression yields ${quote(change)}, and a merge needs an object`);
}

function patched(object: JsonObject, change: JsonValue): JsonObject {
  if (!isJsonArray(change))
    throw new InvalidChange(
      `the expression yields ${quote(change)}, and a JSON patch needs a list of operations`,
    );
  try {
    return applyPatch(object, change.map(operationOf));
  } catch (error) {
    if (error instanceof InvalidChange) throw error;
    throw new InvalidChange(messageOf(error));
  }
}

function operationOf(item: JsonValue, index: number): PatchOperation {
  const [op, path, value] = ['op', 'path', 'value'].map((key) => valueIn(item, key));
  if (typeof path === 'string' && op === 'remove') return { op, path };
  if (typeof path === 'string' && (op === 'add' || op === 'replace') && value !== undefined)
    return { op, path, value };
  throw new InvalidChange(
    `operation ${index} is not one of {op: add or replace, path, value} and {op: remove, path}`,
  );
}

export class MutationError extends Error {
  override name = 'MutationError';
  readonly policy: string;

  constructor(message: string, policy: string, cause?: unknown) {
    super(message, { cause });
    this.policy = policy;
  }
}
