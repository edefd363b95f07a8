import type { JsonObject } from '../../json/json.ts';
import type { Condition } from '../../json/kube-object.ts';
import type { ApiObject } from '../api-object.ts';
import {
  flag,
  number,
  optionalText,
  record,
  records,
  section,
  spec,
  status,
  text,
  texts,
} from '../fields.ts';
import type { ResourceType } from '../resource-type.ts';
import type { Schema } from '../schema/schema.ts';

export type DefinitionNames = Pick<
  ResourceType,
  'singular' | 'kind' | 'listKind' | 'shortNames' | 'categories'
> & { readonly plural: string };

export type DefinitionColumn = ReturnType<typeof toColumn>;

export type DefinitionVersion = ReturnType<typeof toVersion>;

export type Conversion = ReturnType<typeof toConversion>;

/** The spec of a CustomResourceDefinition. Absent fields are empty, like after decoding in Go. */
export type Definition = ReturnType<typeof readDefinition>;

export const DEFINITIONS = { group: 'apiextensions.k8s.io', resource: 'customresourcedefinitions' } as const;

/** Keeps a definition that is being deleted until its objects are deleted. */
export const CLEANUP_FINALIZER = 'customresourcecleanup.apiextensions.k8s.io';

export function readDefinition(crd: ApiObject) {
  const given = spec(crd);
  const conversion = record(given, 'conversion');
  return {
    group: text(given, 'group'),
    /** `Cluster` or `Namespaced` if the definition is valid. */
    scope: text(given, 'scope'),
    names: toNames(section(given, 'names')),
    versions: records(given, 'versions').map(toVersion),
    conversion: conversion && toConversion(conversion),
    preserveUnknownFields: flag(given, 'preserveUnknownFields'),
  };
}

export const groupOf = (crd: ApiObject): string => text(spec(crd), 'group');

export const isAwaitingCleanup = ({ metadata }: ApiObject): boolean =>
  metadata.deletionTimestamp !== undefined && metadata.finalizers?.includes(CLEANUP_FINALIZER) === true;

/** The names that are served. They differ from the names in the spec while another definition holds them. */
export const acceptedNames = (crd: ApiObject): DefinitionNames =>
  toNames(section(crd, 'status', 'acceptedNames'));

export const storedVersions = (crd: ApiObject): readonly string[] => texts(status(crd), 'storedVersions');

export const conditionsOf = (crd: ApiObject): readonly Condition[] =>
  records(status(crd), 'conditions').map((condition) => {
    const is = text(condition, 'status');
    return {
      type: text(condition, 'type'),
      status: is === 'True' || is === 'False' ? is : 'Unknown',
      lastTransitionTime: text(condition, 'lastTransitionTime'),
      reason: text(condition, 'reason'),
      message: text(condition, 'message'),
    };
  });

export const isConditionTrue = (crd: ApiObject, type: string): boolean =>
  conditionsOf(crd).some((condition) => condition.type === type && condition.status === 'True');

export const storageVersionOf = ({ versions }: Definition): string | undefined =>
  versions.find(({ storage }) => storage)?.name;

const toNames = (names: JsonObject): DefinitionNames => ({
  plural: text(names, 'plural'),
  singular: text(names, 'singular'),
  kind: text(names, 'kind'),
  listKind: text(names, 'listKind'),
  shortNames: texts(names, 'shortNames'),
  categories: texts(names, 'categories'),
});

function toVersion(version: JsonObject) {
  const schema = record(section(version, 'schema'), 'openAPIV3Schema');
  const subresources = section(version, 'subresources');
  const scale = record(subresources, 'scale');
  return {
    name: text(version, 'name'),
    served: flag(version, 'served'),
    storage: flag(version, 'storage'),
    deprecated: flag(version, 'deprecated'),
    deprecationWarning: optionalText(version, 'deprecationWarning'),
    schema: schema as Schema | undefined, // `structuralProblems` found no problem in a stored definition
    hasStatus: record(subresources, 'status') !== undefined,
    scale: scale && toScale(scale),
    columns: records(version, 'additionalPrinterColumns').map(toColumn),
    /** JSONPaths with dots: `.spec.color`. */
    selectableFields: records(version, 'selectableFields').map((entry) => text(entry, 'jsonPath')),
  };
}

function toScale(scale: JsonObject): NonNullable<ResourceType['scale']> {
  const labelSelectorPath = text(scale, 'labelSelectorPath');
  return {
    specReplicasPath: text(scale, 'specReplicasPath'),
    statusReplicasPath: text(scale, 'statusReplicasPath'),
    ...(labelSelectorPath === '' ? {} : { labelSelectorPath }),
  };
}

function toColumn(column: JsonObject) {
  return {
    name: text(column, 'name'),
    type: text(column, 'type'),
    format: text(column, 'format'),
    description: text(column, 'description'),
    priority: number(column, 'priority') ?? 0,
    jsonPath: text(column, 'jsonPath'),
  };
}

function toConversion(conversion: JsonObject) {
  const webhook = record(conversion, 'webhook');
  return {
    /** `None` or `Webhook` if the definition is valid. */
    strategy: text(conversion, 'strategy'),
    webhook: webhook && {
      clientConfig: record(webhook, 'clientConfig'),
      reviewVersions: texts(webhook, 'conversionReviewVersions'),
    },
  };
}
