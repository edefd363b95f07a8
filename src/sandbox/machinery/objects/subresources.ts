import { withStatusOf } from './validate.ts';
import { field, withMeta, type ApiObject } from '../api-object.ts';
import type { ResourceType } from '../resource-type.ts';

/** Kinds of the apiextensions server: a write of their status leaves metadata alone. Those of others take it along. */
const keepsMetadata = ({ custom, group }: ResourceType) => custom || group === 'apiextensions.k8s.io';

/** What of an object its endpoint, or that of a subresource, leaves as it was: GetResetFields of its strategy. */
export function resetFields(type: ResourceType, subresource: string): readonly string[] {
  if (subresource === '') return type.hasStatus ? ['status'] : [];
  if (subresource !== 'status') return [];
  return keepsMetadata(type) ? ['spec', 'metadata'] : ['spec'];
}

/** What a write to the object, or to one of its subresources, can reach; the rest is as it was. */
export function narrowed(
  wanted: ApiObject,
  live: ApiObject,
  type: ResourceType,
  subresource: string,
): ApiObject {
  switch (subresource) {
    case '':
      return type.hasStatus ? withStatusOf(wanted, live) : wanted;
    case 'finalize': {
      const spec = field(wanted, 'spec');
      return spec === undefined ? live : { ...live, spec };
    }
    case 'scale':
      return wanted; // its view holds nothing but what it can reach
    default: {
      const kept = withStatusOf(live, wanted);
      return keepsMetadata(type)
        ? withMeta(kept, { managedFields: wanted.metadata.managedFields })
        : { ...kept, metadata: wanted.metadata };
    }
  }
}
