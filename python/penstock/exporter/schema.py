"""Arguments of operators as their schemas name them."""


def arguments(function, args, kwargs):
    """The values of all arguments by name, the defaults of the schema included."""
    schema = function._schema.arguments
    given = {entry.name: value for entry, value in zip(schema, args, strict=False)}
    return {entry.name: entry.default_value for entry in schema} | given | dict(kwargs)


def argument(node, name):
    """The value of an argument of `node`, the default of the operator's schema included."""
    return arguments(node.target, node.args, node.kwargs)[name]
