import type { JsonObject, JsonValue } from '../../json/json.ts';
import { ApiFailure, badRequest } from '../failure.ts';
import { goTypeOf, showGo } from './go-types.ts';

// Messages of k8s.io/apimachinery/pkg/util/mergepatch/errors.go with kube-apiserver's status codes: it reports
// malformed directives and lists of lists as client errors, and everything else as an internal error.

const unforeseen = (message: string) => new ApiFailure(500, '', message);

export const listsOfLists = () =>
  new ApiFailure(422, 'Invalid', 'the server rejected our request due to an error in our request', {});

export const malformedRetainKeys = () => badRequest('invalid patch format of retainKeys');

export const malformedDeletion = () => badRequest('invalid patch format of primitive list');

export const malformedOrder = () => badRequest('invalid patch format of setElementOrder list');

export const noMergeKey = (item: JsonObject, mergeKey: string) =>
  unforeseen(`map: ${showGo(item)} does not contain declared merge key: ${mergeKey}`);

export const unknownDirective = (directive: JsonValue, map: JsonObject) =>
  unforeseen(`unknown patch type: ${showGo(directive)} in map: ${showGo(map)}`);

export const wrongType = (expected: JsonValue, actual: JsonValue) =>
  unforeseen(`expected a ${goTypeOf(expected)}, but received a ${goTypeOf(actual)}`);

export const mixedList = (lists: readonly (readonly JsonValue[])[]) =>
  unforeseen(`list element types are not identical: ${showGo(lists)}`);

export const mergeDirectiveInList = () => unforeseen('merging lists cannot yet be specified in the patch');

export const noKeyToMergeBy = () => unforeseen('cannot merge lists without merge key for type struct');

export const orderMismatch = (patch: readonly JsonValue[], order: readonly JsonValue[]) =>
  unforeseen(
    `The order in patch list:\n${showGo(patch)}\n doesn't match $setElementOrder list:\n${showGo(order)}\n`,
  );
