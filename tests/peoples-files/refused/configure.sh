#!/bin/bash
sed -i "s/^num.partitions=.*/num.partitions=30/" server.properties
