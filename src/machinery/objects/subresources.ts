import { withStatusOf } from './validate.ts';
import { changed, section, spec, withFields } from '../fields.ts';
import { withMeta, type ApiObject } from '../api-object.ts';
import type { ResourceType } from '../resource-type.ts';

/** In custom resources and definitions, a status write leaves metadata unchanged except managedFields. */
const keepsMetadata = ({ custom, group }: ResourceType) => custom || group === 'apiextensions.k8s.io';

/** Top-level fields that the endpoint of the object or subresource leaves unchanged (GetResetFields). */
export function resetFields(type: ResourceType, subresource: string): readonly string[] {
  if (subresource === '') return type.hasStatus ? ['status'] : [];
  if (subresource !== 'status') return [];
  return keepsMetadata(type) ? ['spec', 'metadata'] : ['spec'];
}

/** The live object with the changes that the endpoint of the object or subresource may make. */
export function restrictToEndpoint(
  wanted: ApiObject,
  live: ApiObject,
  type: ResourceType,
  subresource: string,
): ApiObject {
  switch (subresource) {
    case '':
      return type.hasStatus ? withStatusOf(wanted, live) : wanted;
    case 'finalize':
      return withStatusOf(wanted, live);
    case 'ephemeralcontainers': {
      const { ephemeralContainers } = section(wanted, 'spec');
      return withFields(live, { spec: changed(spec(live), { ephemeralContainers }) });
    }
    case 'scale':
      return wanted; // the Scale view has only writable fields
    default: {
      const kept = withStatusOf(live, wanted);
      if (keepsMetadata(type)) return withMeta(kept, { managedFields: wanted.metadata.managedFields });
      const written = { ...kept, metadata: wanted.metadata };
      return type.group === 'apps' && type.resource === 'deployments'
        ? withMeta(written, { labels: live.metadata.labels })
        : written;
    }
  }
}
