import { isEqual } from '../../json/json.ts';
import { toJson, type ApiObject } from '../api-object.ts';
import type { ResourceType } from '../resource-type.ts';
import { complete } from './complete.ts';

/**
 * Custom resources as their definition has them now: what was stored under an older schema loses what this one does not know,
 * and gets its defaults. The API server does so whenever it reads an object. Objects and types are remembered, for most reads
 * are of what was read before.
 */
export function createDefinedView(): (object: ApiObject, type: ResourceType) => ApiObject {
  const views = new WeakMap<ResourceType, WeakMap<ApiObject, ApiObject>>();
  return (object, type) => {
    const known = views.get(type) ?? new WeakMap<ApiObject, ApiObject>();
    views.set(type, known);
    const view = known.get(object) ?? viewOf(object, type);
    known.set(object, view);
    return view;
  };
}

function viewOf(object: ApiObject, type: ResourceType): ApiObject {
  const view = complete(object, type);
  return isEqual(toJson(view), toJson(object)) ? object : view;
}
