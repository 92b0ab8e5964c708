"""The relay between a NodeManager and the resource tracker."""
