import { stringify, type CreateNodeOptions, type DocumentOptions, type ToStringOptions } from 'yaml';

type Options = DocumentOptions & CreateNodeOptions & ToStringOptions;

/** YAML for kubectl and Helm. They parse YAML 1.1, in which `Off` without quotes is a Boolean, and 1:30 is a number. */
export const toYaml = (value: unknown, options: Options = {}): string =>
  stringify(value, { ...options, compat: 'yaml-1.1' });
